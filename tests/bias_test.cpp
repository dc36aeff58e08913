#include "kernels/bias.h"

#include <cmath>
#include <random>
#include <vector>

#include "core/half.h"
#include "core/tensor.h"
#include "tests/catch.h"

using namespace ringtape;

namespace {

std::vector<Device> test_devices() {
  std::vector<Device> devices{{}};
  if (cuda_device_count() > 0) devices.push_back({DeviceType::cuda, 0});
  return devices;
}

/// Uniform in [-1, 1), rounded to T.
template <class T, class Convert>
Tensor random_tensor(Shape shape, Device device, unsigned seed, const Convert& convert) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> values;
  for (std::int64_t i = 0; i < shape.elements(); ++i) values.push_back(convert(uniform(engine)));
  return from_vector(values, shape, device);
}

Tensor random_tensor(Shape shape, DType dtype, Device device, unsigned seed) {
  switch (dtype) {
    case DType::f64:
      return random_tensor<double>(shape, device, seed, [](double v) { return v; });
    case DType::bf16:
      return random_tensor<bfloat16>(shape, device, seed,
                                     [](double v) { return on_cpu::to_bfloat16(static_cast<float>(v)); });
    case DType::f16:
      return random_tensor<float16>(shape, device, seed,
                                    [](double v) { return on_cpu::to_float16(static_cast<float>(v)); });
    default:
      return random_tensor<float>(shape, device, seed, [](double v) { return static_cast<float>(v); });
  }
}

/// Largest relative error of one rounding: 2^-p for p significant bits.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::ldexp(1.0, -53);
    case DType::bf16:
      return std::ldexp(1.0, -8);
    case DType::f16:
      return std::ldexp(1.0, -11);
    default:
      return std::ldexp(1.0, -24);
  }
}

const std::vector<DType> kDTypes{DType::f32, DType::bf16, DType::f16, DType::f64};

}  // namespace

TEST_CASE("bias_add adds the bias to every row and leaves the padding alone", "[bias]") {
  for (const Device device : test_devices()) {
    for (const DType dtype : kDTypes) {
      if (dtype == DType::f64 && device.is_cuda()) continue;
      for (const std::int64_t rows : {0, 1, 31, 300}) {
        for (const std::int64_t columns : {0, 1, 10, 33, 257}) {
          for (const std::int64_t padding : {0, 3}) {
            INFO(rows << " x " << columns << " + " << padding << " " << name_of(dtype) << " "
                      << to_string(device));
            const std::int64_t ld = columns + padding;
            const Tensor bias = random_tensor({columns}, dtype, device, 1);
            const Tensor y = random_tensor({rows, ld}, dtype, device, 2);
            const std::vector<double> before = y.to_doubles();
            const std::vector<double> b = bias.to_doubles();
            bias_add(Stream::current(device), dtype, bias.raw(), y.raw(), rows, columns, ld);
            const std::vector<double> after = y.to_doubles();
            bool right = true;
            for (std::int64_t i = 0; i < rows; ++i) {
              for (std::int64_t j = 0; j < ld; ++j) {
                // One rounding in f32 and, for the 16-bit types, one more to the dtype.
                const double expected = before[i * ld + j] + (j < columns ? b[j] : 0);
                const double bound = (unit_roundoff(dtype) + std::ldexp(1.0, -24)) * std::abs(expected);
                right = right && std::abs(after[i * ld + j] - expected) <= (j < columns ? bound : 0);
              }
            }
            CHECK(right);
          }
        }
      }
    }
  }
}

TEST_CASE("bias_gradient is the column sum, whatever the number of rows", "[bias]") {
  for (const Device device : test_devices()) {
    for (const DType dtype : kDTypes) {
      if (dtype == DType::f64 && device.is_cuda()) continue;
      const DType sum_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
      for (const std::int64_t rows : {0, 1, 31, 257, 1024, 1025, 5000}) {
        for (const std::int64_t columns : {0, 1, 10, 33, 64, 257}) {
          for (const bool accumulate : {false, true}) {
            INFO(rows << " x " << columns << " " << name_of(dtype) << " accumulate " << accumulate << " "
                      << to_string(device));
            const Tensor dy = random_tensor({rows, columns}, dtype, device, 3);
            const Tensor d_bias = random_tensor({columns}, sum_dtype, device, 4);
            const std::vector<double> before = d_bias.to_doubles();
            const std::vector<double> x = dy.to_doubles();
            bias_gradient(Stream::current(device), dtype, dy.raw(), d_bias.raw(), rows, columns, accumulate);
            const std::vector<double> after = d_bias.to_doubles();
            bool right = true;
            for (std::int64_t j = 0; j < columns; ++j) {
              double expected = accumulate ? before[j] : 0;
              double magnitude = std::abs(expected);
              for (std::int64_t i = 0; i < rows; ++i) {
                expected += x[i * columns + j];
                magnitude += std::abs(x[i * columns + j]);
              }
              const double bound = static_cast<double>(rows + 1) * unit_roundoff(sum_dtype) * magnitude;
              right = right && std::abs(after[j] - expected) <= bound;
            }
            CHECK(right);
          }
        }
      }
    }
  }
}

TEST_CASE("bias_gradient gives the same bits every time", "[bias]") {
  for (const Device device : test_devices()) {
    const Tensor dy = random_tensor({5000, 33}, DType::f32, device, 5);
    const Tensor first = empty({33}, DType::f32, device);
    const Tensor second = empty({33}, DType::f32, device);
    bias_gradient(Stream::current(device), DType::f32, dy.raw(), first.raw(), 5000, 33, false);
    bias_gradient(Stream::current(device), DType::f32, dy.raw(), second.raw(), 5000, 33, false);
    CHECK(first.to_doubles() == second.to_doubles());
  }
}
