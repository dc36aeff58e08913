#include "kernels/elementwise.h"
#include "kernels/pointwise_table.h"

#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

const std::vector<std::int64_t> kSizes = {0, 1, 31, 33, 257, 20000};

}  // namespace

TEMPLATE_TEST_CASE("fill and arange round to the element type", "[elementwise]", float, double, bfloat16,
                   float16, std::int32_t, std::int64_t, std::uint8_t) {
  using T = TestType;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const std::int64_t n : kSizes) {
      DeviceArray<T> x(device, n);
      fill(stream, dtype_of<T>, x.data(), n, 3.3);
      CHECK(x.doubles() == std::vector<double>(static_cast<std::size_t>(n), to_double(from_double<T>(3.3))));

      const std::int64_t few = std::min<std::int64_t>(n, 100);  // within the range of u8
      std::vector<double> expected;
      for (int i = 0; i < few; ++i) expected.push_back(to_double(from_double<T>(5 + i * 2.5)));
      arange(stream, dtype_of<T>, x.data(), few, 5.0, 2.5);
      std::vector<double> actual = x.doubles();
      actual.resize(static_cast<std::size_t>(few));
      CHECK(actual == expected);
    }
  });
}

namespace {

template <class From, class To>
void check_cast(const std::vector<double>& values) {
  on_every_device<std::conditional_t<std::is_same_v<From, double>, double, To>>(
      [&](Device device, const Stream& stream) {
        const auto n = static_cast<std::int64_t>(values.size());
        const std::vector<From> from = convert<From>(values);
        std::vector<double> expected;
        for (From value : from) expected.push_back(to_double(from_double<To>(to_double(value))));
        DeviceArray<From> x(device, from);
        DeviceArray<To> y(device, n, from_double<To>(100));
        cast(stream, dtype_of<From>, x.data(), dtype_of<To>, y.data(), n, false);
        CHECK(y.doubles() == expected);
      });
}

template <class From>
void check_casts_from(const std::vector<double>& values) {
  check_cast<From, float>(values);
  check_cast<From, double>(values);
  check_cast<From, bfloat16>(values);
  check_cast<From, float16>(values);
  check_cast<From, std::int32_t>(values);
  check_cast<From, std::int64_t>(values);
}

}  // namespace

TEST_CASE("cast converts from every element type to every one but u8", "[elementwise]") {
  const std::vector<double> fractions = random_values<double>(257, 1, -1000, 1000);
  check_casts_from<float>(fractions);
  check_casts_from<double>(fractions);
  check_casts_from<bfloat16>(fractions);
  check_casts_from<float16>(fractions);
  check_casts_from<std::int32_t>({-100003, -1, 0, 1, 65504, 16777217, 2147483647});
  check_casts_from<std::int64_t>({-100003, -1, 0, 1, 65504, 16777217, 2147483647});
  check_casts_from<std::uint8_t>({0, 1, 127, 128, 255});
}

TEST_CASE("cast adds a 16-bit gradient into an f32 one", "[elementwise]") {
  on_every_device([&](Device device, const Stream& stream) {
    const std::vector<bfloat16> from = random_values<bfloat16>(257, 1);
    const std::vector<float> before = random_values<float>(257, 2);
    std::vector<double> expected;
    for (std::size_t i = 0; i < from.size(); ++i) expected.push_back(before[i] + on_cpu::to_float(from[i]));
    DeviceArray<bfloat16> x(device, from);
    DeviceArray<float> y(device, before);
    cast(stream, DType::bf16, x.data(), DType::f32, y.data(), std::int64_t{257}, true);
    CHECK(y.doubles() == expected);
  });
}

TEMPLATE_TEST_CASE("scale, add, axpy and multiply", "[elementwise]", float, double, bfloat16, float16) {
  using T = TestType;
  constexpr DType dtype = dtype_of<T>;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const std::int64_t n : kSizes) {
      const std::vector<T> a = random_values<T>(n, 1), b = random_values<T>(n, 2);
      const std::vector<double> da = to_doubles(a), db = to_doubles(b);
      std::vector<double> scaled, sum, product, axpy_sum, product_sum;
      for (std::size_t i = 0; i < a.size(); ++i) {
        scaled.push_back(to_double(from_double<T>(0.375 * da[i])));
        sum.push_back(to_double(from_double<T>(da[i] + db[i])));
        product.push_back(to_double(from_double<T>(da[i] * db[i])));
        axpy_sum.push_back(db[i] - 1.5 * da[i]);
        product_sum.push_back(to_double(from_double<T>(da[i] * db[i])) + da[i] * db[i]);
      }
      const DeviceArray<T> x(device, a), z(device, b);
      DeviceArray<T> y(device, n, from_double<T>(9));
      scale(stream, dtype, x.data(), y.data(), n, 0.375);
      CHECK(y.doubles() == scaled);
      add(stream, dtype, x.data(), z.data(), y.data(), n);
      CHECK(y.doubles() == sum);
      const PointwiseKernel& multiply = pointwise_operation("multiply", device).forward;
      PointwiseArguments arguments{.a = x.data(), .b = z.data(), .result = y.data()};
      multiply.launch(stream, dtype, arguments, n);
      CHECK(y.doubles() == product);
      arguments.accumulate = true;
      multiply.launch(stream, dtype, arguments, n);
      CHECK(worst_error(y.doubles(), product_sum, 1.01 * rounding<T>(), rounding<float>()) <= 1);
      axpy(stream, dtype, -1.5, x.data(), z.data(), n);
      CHECK(worst_error(z.doubles(), axpy_sum, 1.01 * rounding<T>(), 4 * rounding<float>()) <= 1);
      scale(stream, dtype, x.data(), x.data(), n, 0.375);  // in place
      CHECK(x.doubles() == scaled);
    }
  });
}

TEST_CASE("scale_by_device multiplies by a scalar on the device", "[elementwise]") {
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> x(device, {1, -2, 3}), one(device, {1}), half(device, {0.5});
    scale_by_device(stream, DType::f32, x.data(), std::int64_t{3}, one.data());
    CHECK(x.host() == std::vector<float>{1, -2, 3});
    scale_by_device(stream, DType::f32, x.data(), std::int64_t{3}, half.data());
    CHECK(x.host() == std::vector<float>{0.5, -1, 1.5});
  });
}

TEMPLATE_TEST_CASE("divide_by divides, and rounds once", "[elementwise]", float, double, bfloat16, float16) {
  using T = TestType;
  on_every_device([&](Device device, const Stream& stream) {
    for (const std::int64_t n : kSizes) {
      const DeviceArray<T> x(device, random_values<T>(n, 1));
      std::vector<double> expected;
      for (const double value : x.doubles()) expected.push_back(to_double(from_double<T>(value / 3)));
      divide_by(stream, dtype_of<T>, x.data(), n, 3.0);
      CHECK(x.doubles() == expected);
    }
  });
}

TEST_CASE("elementwise kernels take pointers that are aligned to elements only", "[elementwise]") {
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> x(device, random_values<float>(101, 1));
    const std::vector<double> before = x.doubles();
    DeviceArray<float> y(device, 101, 7);
    scale(stream, DType::f32, x.data() + 1, y.data() + 2, std::int64_t{97}, 2.0);
    std::vector<double> expected(101, 7);
    for (std::size_t i = 0; i < 97; ++i) expected[i + 2] = 2 * before[i + 1];
    CHECK(y.doubles() == expected);
  });
}

/// One rounding to T on top of a few in f32.
template <class T>
void check_normalize() {
  INFO(name_of(dtype_of<T>));
  on_every_device<T>([&](Device device, const Stream& stream) {
    std::vector<std::uint8_t> pixels;
    std::vector<double> expected;
    for (int i = 0; i < 256; ++i) {
      pixels.push_back(static_cast<std::uint8_t>(i));
      expected.push_back((i / 255.0 - 0.1307) / 0.3081);
    }
    const DeviceArray<std::uint8_t> x(device, pixels);
    DeviceArray<T> y(device, 256);
    normalize_u8(stream, x.data(), dtype_of<T>, y.data(), std::int64_t{256}, 0.1307, 0.3081);
    const double arithmetic = 4 * std::min(rounding<float>(), rounding<T>());
    CHECK(worst_error(y.doubles(), expected, rounding<T>() + arithmetic, arithmetic) <= 1);
  });
}

TEST_CASE("normalize_u8 maps pixels to numbers", "[elementwise]") {
  check_normalize<float>();
  check_normalize<double>();
  check_normalize<bfloat16>();
  check_normalize<float16>();
}

}  // namespace ringtape::test
