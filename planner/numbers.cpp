#include "planner/numbers.h"

#include <cmath>

#include "core/error.h"

namespace ringtape::planner {

std::int64_t product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMaxProduct = std::int64_t{1} << 53;
  check(b == 0 || a <= kMaxProduct / b, "{} x {} is too large: expected at most {}", a, b, kMaxProduct);
  return a * b;
}

std::string bytes_text(std::int64_t bytes) {
  return ringtape::bytes_text(static_cast<double>(bytes), 4);
}

std::int64_t updates_of(double epochs, std::int64_t updates) {
  check(epochs > 0 && epochs <= kMaxEpochs, "epochs must be above 0 and at most {:.0f}, found {}", kMaxEpochs,
        epochs);
  const double all = epochs * static_cast<double>(updates), nearest = std::round(all);
  // 1.1 x 10 is a little more than 11 in binary.
  return static_cast<std::int64_t>(std::abs(all - nearest) < 1e-9 * all ? nearest : std::ceil(all));
}

void check_size(const std::string& name, std::int64_t size) {
  check(size >= 1 && size <= kMaxSize, "{} must be from 1 to {}, found {}", name, kMaxSize, size);
}

}  // namespace ringtape::planner
