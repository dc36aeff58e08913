#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "autograd/creation.h"
#include "nn/arena.h"

namespace ringtape::lessons {

/// The eigenvalue of largest magnitude of the Hessian H of a loss at the arena's values, by `iterations` of
/// the power method. `backward` computes the gradient of the loss into the arena. A product H v, for v of
/// length 1, is the difference of the gradients at values + epsilon v and values - epsilon v, divided by 2
/// epsilon. The arena's values are the same afterwards.
inline double largest_curvature(ParameterArena& arena, const std::function<void()>& backward,
                                int iterations = 40, double epsilon = 1e-2) {
  const std::vector<float> values = arena.values().to_vector<float>();
  const auto gradient_at = [&](const std::vector<double>& v, double by) {
    for (std::size_t i = 0; i < values.size(); ++i)
      arena.values().data<float>()[i] = values[i] + static_cast<float>(by * v[i]);
    arena.zero_grad();
    backward();
    return arena.gradients().to_doubles();
  };
  std::vector<double> v = randn({arena.size()}).to_doubles();
  double length = 0, largest = 0;
  for (const double x : v) length += x * x;
  for (double& x : v) x /= std::sqrt(length);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const std::vector<double> before = gradient_at(v, -epsilon);
    std::vector<double> product = gradient_at(v, epsilon);
    length = largest = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      product[i] = (product[i] - before[i]) / (2 * epsilon);
      largest += v[i] * product[i];
      length += product[i] * product[i];
    }
    if (length == 0) break;  // a loss without curvature
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = product[i] / std::sqrt(length);
  }
  gradient_at(v, 0);
  return largest;
}

}  // namespace ringtape::lessons
