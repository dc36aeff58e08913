#include "lessons/tasks/online_softmax/task.h"

void absorb(Softmax& state, float x) {
  const float maximum = std::fmax(state.maximum, x);
  state.sum = state.sum * std::exp(state.maximum - maximum) + std::exp(x - maximum);
  state.maximum = maximum;
}

Softmax merge(const Softmax& a, const Softmax& b) {
  if (a.sum == 0) return b;
  if (b.sum == 0) return a;
  const float maximum = std::fmax(a.maximum, b.maximum);
  return {maximum, a.sum * std::exp(a.maximum - maximum) + b.sum * std::exp(b.maximum - maximum)};
}
