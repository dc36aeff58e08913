#include "planner/numbers.h"

#include "core/error.h"

namespace ringtape::planner {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 53;
  check(b == 0 || a <= kLargest / b, "{} x {} is too large: expected at most {}", a, b, kLargest);
  return a * b;
}

std::string bytes_text(std::int64_t bytes) {
  return ringtape::bytes_text(static_cast<double>(bytes), 4);
}

std::string count(std::int64_t number, const std::string& noun) {
  return grouped(number) + " " + noun + (number == 1 ? "" : "s");
}

void check_size(const std::string& name, std::int64_t size) {
  check(size >= 1 && size <= kLargestSize, "{} must be from 1 to {}, found {}", name, kLargestSize, size);
}

}  // namespace ringtape::planner
