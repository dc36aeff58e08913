#include "kernels/bias.h"

#include "tests/support/kernel_test.h"

namespace ringtape::test {

TEMPLATE_TEST_CASE("bias_add adds the bias to every row and leaves the padding alone", "[bias]", float,
                   double, bfloat16, float16) {
  using T = TestType;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const std::int64_t rows : {0, 1, 31, 300}) {
      for (const std::int64_t columns : {0, 1, 10, 33, 257, 600}) {
        for (const std::int64_t padding : {0, 3}) {
          INFO(rows << " x " << columns << " + " << padding);
          const std::int64_t ld = columns + padding;
          const std::vector<T> bias = random_values<T>(columns, 1), before = random_values<T>(rows * ld, 2);
          std::vector<double> expected = to_doubles(before);
          for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < columns; ++j) {
              expected[i * ld + j] = to_double(from_double<T>(expected[i * ld + j] + to_double(bias[j])));
            }
          }
          const DeviceArray<T> b(device, bias), y(device, before);
          bias_add(stream, dtype_of<T>, b.data(), y.data(), rows, columns, ld);
          CHECK(y.doubles() == expected);
        }
      }
    }
  });
}

TEMPLATE_TEST_CASE("bias_gradient is the column sum, whatever the number of rows", "[bias]", float, double,
                   bfloat16, float16) {
  using T = TestType;
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (const std::int64_t rows : {0, 1, 31, 1024, 1025, 3000}) {
    for (const std::int64_t columns : {0, 1, 10, 33, 257, 600}) {
      const std::vector<T> dy = random_values<T>(rows * columns, 3);
      const std::vector<Sum> before = random_values<Sum>(columns, 4);
      std::vector<double> sums(columns), magnitudes(columns);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          sums[j] += to_double(dy[i * columns + j]);
          magnitudes[j] += std::abs(to_double(dy[i * columns + j]));
        }
      }
      on_every_device<T>([&](Device device, const Stream& stream) {
        for (const bool accumulate : {false, true}) {
          INFO(rows << " x " << columns << ", accumulate " << accumulate);
          const DeviceArray<T> x(device, dy);
          const DeviceArray<Sum> d_bias(device, before);
          bias_gradient(stream, dtype_of<T>, x.data(), d_bias.data(), rows, columns, accumulate);
          const std::vector<double> found = d_bias.doubles();
          double worst = 0;  // as a multiple of the bound for a sum in any order: terms * u * sum of |terms|
          for (std::int64_t j = 0; j < columns; ++j) {
            const double start = accumulate ? to_double(before[j]) : 0;
            const double bound =
                static_cast<double>(rows + 1) * rounding<Sum>() * (magnitudes[j] + std::abs(start));
            worst = std::max(worst, worst_error({found[j]}, {sums[j] + start}, 0, bound));
          }
          CHECK(worst <= 1);
        }
      });
    }
  }
}

TEST_CASE("bias_gradient gives the same bits every time", "[bias]") {
  const std::vector<float> dy = random_values<float>(5000 * 33, 5);
  std::vector<float> expected;
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> x(device, dy), first(device, 33), second(device, 33);
    bias_gradient(stream, DType::f32, x.data(), first.data(), 5000, 33, false);
    bias_gradient(stream, DType::f32, x.data(), second.data(), 5000, 33, false);
    CHECK(first.host() == second.host());
    if (device.is_cuda()) return;
    if (expected.empty()) expected = first.host();
    CHECK(first.host() == expected);  // in any order of the threads
  });
}

}  // namespace ringtape::test
