#pragma once

#include <cmath>
#include <vector>

namespace ringtape::lessons {

/// The Euclidean norm.
inline double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

}  // namespace ringtape::lessons
