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

}  // namespace ringtape::test
