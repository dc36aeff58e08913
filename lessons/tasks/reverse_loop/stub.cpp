// The tape's reverse loop. ./learn 1 task reverse_loop says what it has to do, ./learn 1 test reverse_loop
// tries it.
#include "lessons/tasks/reverse_loop/task.h"

void run_backward(std::span<const TapeNode> nodes, std::vector<Gradient>& gradients) {
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    // Your code. In which order? And where do the contributions go?
    static_cast<void>(gradients);
  }
}
