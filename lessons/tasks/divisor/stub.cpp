// The divisor of accumulation. ./learn 3 task says what it has to do, ./learn 3 test tries it.
#include "lessons/tasks/divisor/task.h"

void accumulate(std::span<const std::int64_t> targets, std::int64_t all_targets, int ranks,
                const Backward& backward) {
  for (std::size_t k = 0; k < targets.size(); ++k) {
    // Your code: by which number is the sum of losses of micro-batch k divided?
    static_cast<void>(all_targets);
    static_cast<void>(ranks);
    backward(k, 1);
  }
}
