// 1F1B. ./learn 37 task says what it has to do, ./learn 37 test tries it.
#include "lessons/tasks/pipeline/task.h"

void one_forward_one_backward(int stage, int stages, int micro_batches, std::vector<Pass>& order) {
  // Your code. order.push_back({true, 0}) is the forward of micro-batch 0, {false, 0} its backward.
  static_cast<void>(stage);
  static_cast<void>(stages);
  static_cast<void>(micro_batches);
  static_cast<void>(order);
}
