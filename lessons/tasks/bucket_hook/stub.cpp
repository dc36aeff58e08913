// The hook that launches buckets. ./learn 15 task says what it has to do, ./learn 15 test tries it.
#include "lessons/tasks/bucket_hook/task.h"

void gradient_complete(Buckets& buckets, int parameter) {
  // Your code: count, and launch what can be launched.
  static_cast<void>(buckets);
  static_cast<void>(parameter);
}

void backward_ended(Buckets& buckets) {
  // Your code: launch what is left.
  static_cast<void>(buckets);
}
