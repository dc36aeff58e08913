#include "kernels/mse.h"

#include "tests/support/kernel_test.h"

namespace ringtape::test {

TEMPLATE_TEST_CASE("MSE and its gradient", "[mse]", float, double, bfloat16, float16) {
  using T = TestType;
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  constexpr DType dtype = dtype_of<T>;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const std::int64_t n : {1, 31, 33, 257, 100003}) {
      const std::vector<T> p = random_values<T>(n, 1), t = random_values<T>(n, 2),
                           before = random_values<T>(n, 3);
      const double factor = 1.0 / static_cast<double>(n), upstream = 0.75;
      long double loss = 0;  // the reference's rounding must be negligible in the f64 case
      std::vector<double> gradient, sum;
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double difference = to_double(p[i]) - to_double(t[i]);
        loss += factor * difference * difference;
        gradient.push_back(2 * factor * upstream * difference);
        sum.push_back(to_double(before[i]) + gradient.back());
      }
      const DeviceArray<T> prediction(device, p), target(device, t), accumulated(device, before);
      const DeviceArray<A> grad_loss(device, {static_cast<A>(upstream)});
      DeviceArray<A> result(device, 1), again(device, 1);
      DeviceArray<T> dprediction(device, n);
      mse_forward(stream, dtype, prediction.data(), target.data(), n, factor, result.data());
      CHECK(worst_error(result.doubles(), {static_cast<double>(loss)}, 8 * rounding<A>()) <= 1);
      mse_forward(stream, dtype, prediction.data(), target.data(), n, factor, again.data());
      CHECK(again.host() == result.host());

      mse_backward(stream, dtype, prediction.data(), target.data(), grad_loss.data(), n, factor,
                   dprediction.data(), false);
      const double tiny = std::is_same_v<T, float16> ? 0x1p-25 : 0;  // half a unit of f16's subnormals
      CHECK(worst_error(dprediction.doubles(), gradient, 1.1 * rounding<T>() + 3 * rounding<A>(), tiny) <= 1);
      mse_backward(stream, dtype, prediction.data(), target.data(), grad_loss.data(), n, factor,
                   accumulated.data(), true);
      CHECK(worst_error(accumulated.doubles(), sum, 1.1 * rounding<T>() + 3 * rounding<A>(),
                        4 * rounding<A>()) <= 1);
    }
  });
}

TEST_CASE("MSE of no elements: 0 as a sum, NaN as a mean", "[mse]") {
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> nothing(device, 0);
    DeviceArray<float> loss(device, {7});
    mse_forward(stream, DType::f32, nothing.data(), nothing.data(), std::int64_t{0}, 1.0, loss.data());
    CHECK(loss.host()[0] == 0);
    mse_forward(stream, DType::f32, nothing.data(), nothing.data(), std::int64_t{0}, 1.0 / 0.0, loss.data());
    CHECK(std::isnan(loss.host()[0]));
  });
}

}  // namespace ringtape::test
