#include "kernels/relu.h"

#include "tests/support/kernel_test.h"

namespace ringtape::test {

TEMPLATE_TEST_CASE("ReLU and its gradient", "[relu]", float, double, bfloat16, float16) {
  using T = TestType;
  constexpr DType dtype = dtype_of<T>;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const std::int64_t n : {0, 1, 31, 33, 257, 20000}) {
      const std::vector<T> x = random_values<T>(n, 1), upstream = random_values<T>(n, 2);
      const std::vector<T> before = random_values<T>(n, 3);
      std::vector<double> y, dx, sum;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double value = to_double(x[i]), gradient = to_double(upstream[i]);
        y.push_back(value > 0 ? value : 0);
        dx.push_back(value > 0 ? gradient : 0);
        sum.push_back(to_double(from_double<T>(to_double(before[i]) + dx.back())));
      }
      const DeviceArray<T> input(device, x), gradient(device, upstream), result(device, before);
      DeviceArray<T> output(device, n);
      relu_forward(stream, dtype, input.data(), output.data(), n);
      CHECK(output.doubles() == y);
      relu_backward(stream, dtype, output.data(), gradient.data(), result.data(), n, true);
      CHECK(result.doubles() == sum);
      relu_backward(stream, dtype, output.data(), gradient.data(), result.data(), n, false);
      CHECK(result.doubles() == dx);
      relu_backward(stream, dtype, output.data(), gradient.data(), gradient.data(), n, false);  // in place
      CHECK(gradient.doubles() == dx);
      relu_forward(stream, dtype, input.data(), input.data(), n);
      CHECK(input.doubles() == y);
    }
  });
}

TEST_CASE("ReLU of NaN, infinities and zeros", "[relu]") {
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> x(device, {NAN, INFINITY, -INFINITY, 0.0f, -0.0f}), dy(device, {1, 2, 3, 4, 5});
    relu_forward(stream, DType::f32, x.data(), x.data(), std::int64_t{5});
    CHECK(worst_error(x.doubles(), {NAN, INFINITY, 0, 0, 0}, 0) == 0);
    relu_backward(stream, DType::f32, x.data(), dy.data(), dy.data(), std::int64_t{5}, false);
    CHECK(dy.doubles() == std::vector<double>{1, 2, 0, 0, 0});
  });
}

}  // namespace ringtape::test
