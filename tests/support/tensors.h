#pragma once

#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "core/philox.h"
#include "kernels/gemm.h"
#include "tests/support/catch.h"

// Helpers for tests of tensors and operations.
namespace ringtape::test {

/// n values uniform in [low, high).
inline std::vector<double> random_doubles(std::int64_t n, std::uint64_t seed, double low = -1,
                                          double high = 1) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = on_cpu::philox4x32_10(seed, static_cast<std::uint64_t>(i), 0).x;
    values.push_back(low + (high - low) * on_cpu::uniform_float(bits));
  }
  return values;
}

/// Odd multiples of 1/64 between -2 and 2: every dtype represents them, and none is at the kink of ReLU.
inline std::vector<double> exact_values(std::int64_t n, std::uint64_t seed) {
  std::vector<double> values = random_doubles(n, seed, -63, 63);
  for (double& value : values) value = (2 * std::floor(value) + 1) / 64;
  return values;
}

/// A tensor with these elements, rounded to `dtype`.
inline Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32,
                        Device device = {}) {
  return to(to(from_vector(values, shape), dtype), device);
}

/// The same, with requires_grad.
inline Tensor leaf(const std::vector<double>& values, const Shape& shape) {
  return tensor_of(values, shape).set_requires_grad(true);
}

/// Half a unit in the last place, relative: the error of one rounding to `dtype`.
inline double rounding_of(DType dtype) {
  return dtype == DType::bf16  ? 0x1p-8
         : dtype == DType::f16 ? 0x1p-11
         : dtype == DType::f32 ? 0x1p-24
                               : 0x1p-53;
}

/// |found - expected| <= absolute + relative * |expected|. NaN equals only NaN, an infinity only itself.
inline bool is_close(double found, double expected, double relative, double absolute = 0) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == expected;
  return std::abs(found - expected) <= absolute + relative * std::abs(expected);
}

/// Checks is_close() for every element; reports the first that is not.
inline void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                        double relative, double absolute = 0) {
  REQUIRE(found.size() == expected.size());
  std::size_t i = 0;
  while (i < found.size() && is_close(found[i], expected[i], relative, absolute)) ++i;
  if (i < found.size()) {
    INFO("element " << i << " of " << found.size() << ": found " << found[i] << ", expected " << expected[i]);
    CHECK(is_close(found[i], expected[i], relative, absolute));
  } else {
    SUCCEED();
  }
}

/// Selects the CPU's GEMM backend until the scope ends.
class GemmScope {
 public:
  explicit GemmScope(GemmBackend backend) { set_gemm_backend(backend); }
  ~GemmScope() { set_gemm_backend(previous_); }
  GemmScope(const GemmScope&) = delete;
  GemmScope& operator=(const GemmScope&) = delete;

 private:
  GemmBackend previous_ = gemm_backend();
};

/// The largest absolute value; NaN if a value is NaN, so that no comparison with it holds.
inline double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) {
    if (std::isnan(value)) return value;
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

}  // namespace ringtape::test
