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

}  // namespace ringtape::test
