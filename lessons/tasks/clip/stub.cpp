// Clipping by norm. ./learn 7 task says what it has to do, ./learn 7 test tries it.
#include "lessons/tasks/clip/task.h"

double clip_gradients(std::span<const std::span<float>> gradients, double limit) {
  double norm = 0;
  for (const std::span<float> gradient : gradients) {
    for (float& g : gradient) {
      // Your code, here and below.
      static_cast<void>(g);
      static_cast<void>(limit);
    }
  }
  return norm;
}
