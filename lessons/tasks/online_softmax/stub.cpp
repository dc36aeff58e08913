// Online softmax. ./learn 27 task online_softmax says what it has to do, ./learn 27 test online_softmax tries
// it.
#include "lessons/tasks/online_softmax/task.h"

void absorb(Softmax& state, float x) {
  // Your code: the new maximum, and the new sum.
  static_cast<void>(state);
  static_cast<void>(x);
}

Softmax merge(const Softmax& a, const Softmax& b) {
  // Your code.
  static_cast<void>(b);
  return a;
}
