#include "lessons/tasks/pipeline/task.h"

void one_forward_one_backward(int stage, int stages, int micro_batches, std::vector<Pass>& order) {
  const int warm_up = std::min(stages - stage - 1, micro_batches);
  for (int k = 0; k < warm_up; ++k) order.push_back({true, k});
  for (int k = warm_up; k < micro_batches; ++k) {
    order.push_back({true, k});
    order.push_back({false, k - warm_up});
  }
  for (int k = micro_batches - warm_up; k < micro_batches; ++k) order.push_back({false, k});
}
