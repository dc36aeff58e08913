#include "lessons/tasks/backward/task.h"

void silu_backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx,
                   bool accumulate) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float sigmoid = 1 / (1 + std::exp(-x[i]));
    const float slope = sigmoid + x[i] * sigmoid * (1 - sigmoid);
    dx[i] = (accumulate ? dx[i] : 0) + dy[i] * slope;
  }
}
