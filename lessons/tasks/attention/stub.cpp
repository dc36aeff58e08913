// Attention's forward. ./learn 27 task attention says what it has to do, ./learn 27 test attention tries it.
#include "lessons/tasks/attention/task.h"

void attend(Attention& state, const float* query, const float* keys, const float* values, int count) {
  // Your code: for each key of the tile its score, the new maximum, and both sums rescaled to it.
  static_cast<void>(state);
  static_cast<void>(query);
  static_cast<void>(keys);
  static_cast<void>(values);
  static_cast<void>(count);
}

void finish(const Attention& state, float* out) {
  // Your code.
  static_cast<void>(state);
  static_cast<void>(out);
}
