#include "lessons/tasks/clip/task.h"

double clip_gradients(std::span<const std::span<float>> gradients, double limit) {
  double squares = 0;
  for (const std::span<float> gradient : gradients) {
    for (const float g : gradient) squares += static_cast<double>(g) * g;
  }
  const double norm = std::sqrt(squares);
  if (norm > limit) {
    for (const std::span<float> gradient : gradients) {
      for (float& g : gradient) g *= static_cast<float>(limit / norm);
    }
  }
  return norm;
}
