#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

/// Numbers that an error message suggests in place of one that does not divide another.
namespace ringtape {

/// The divisor of `n` that is nearest to `wanted`, and at most `most` if that is above 0; the smaller one if
/// two are equally near.
inline std::int64_t nearest_divisor(std::int64_t n, std::int64_t wanted, std::int64_t most = 0) {
  std::int64_t nearest = 1;
  for (std::int64_t divisor = 1; divisor <= (most > 0 ? std::min(n, most) : n); ++divisor) {
    if (n % divisor == 0 && std::abs(divisor - wanted) < std::abs(nearest - wanted)) nearest = divisor;
  }
  return nearest;
}

/// The multiple of `divisor` that is nearest to `n`, at least `divisor` itself; the larger one if two are
/// equally near.
inline std::int64_t nearest_multiple(std::int64_t n, std::int64_t divisor) {
  return std::max<std::int64_t>((n + divisor / 2) / divisor, 1) * divisor;
}

}  // namespace ringtape
