#include "kernels/common/math.h"

#include "tests/support/kernel_test.h"

namespace ringtape::test {

TEST_CASE("softmax_exp is within one unit in the last place on the CPU", "[math]") {
  std::vector<double> actual, expected;
  for (double x = -87.3; x < 88; x += 0.00073) {
    const auto rounded = static_cast<float>(x);
    actual.push_back(on_cpu::softmax_exp(rounded));
    expected.push_back(std::exp(static_cast<double>(rounded)));
  }
  CHECK(worst_error(actual, expected, 2 * rounding<float>()) <= 1);
}

TEST_CASE("softmax_exp of large and special arguments", "[math]") {
  CHECK(on_cpu::softmax_exp(0.0f) == 1);
  CHECK(on_cpu::softmax_exp(-88.0f) == 0);
  CHECK(on_cpu::softmax_exp(-1e4f) == 0);
  CHECK(on_cpu::softmax_exp(-3e38f) == 0);
  CHECK(on_cpu::softmax_exp(-INFINITY) == 0);
  CHECK(std::isnan(on_cpu::softmax_exp(NAN)));
}

TEST_CASE("power is the product of equal factors", "[math]") {
  CHECK(on_cpu::power(0.9, 0) == 1);
  CHECK(on_cpu::power(0.0, 3) == 0);
  CHECK(on_cpu::power(3.0, 31) == 617673396283947.0);
  for (const double base : {0.5, 0.9, 0.99, 0.999, 0.999999}) {
    for (const std::int64_t exponent : {1, 2, 3, 10, 1000, 54321, 1000000}) {
      INFO(base << "^" << exponent);
      const double expected = std::pow(base, static_cast<double>(exponent));
      CHECK(std::abs(on_cpu::power(base, exponent) - expected) <=
            static_cast<double>(exponent) * 0x1p-53 * expected);
    }
  }
}

}  // namespace ringtape::test
