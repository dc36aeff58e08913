#include "kernels/compress.h"

#include "core/error.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

/// x (+ residual) as it arrives at a receiver, and the residual it leaves.
struct RoundTrip {
  std::vector<double> values, residual;
};

template <class T>
RoundTrip round_trip(Device device, const Stream& stream, const std::vector<float>& x,
                     const std::vector<float>& residual, float largest, int world_size) {
  const auto n = static_cast<std::int64_t>(x.size());
  const DType dtype = std::is_same_v<T, float16> ? DType::f16 : DType::bf16;
  const DeviceArray<float> in(device, x), kept(device, residual), limit(device, {largest});
  const DeviceArray<T> sent(device, n);
  const DeviceArray<float> out(device, n);
  const CompressionScale scale{largest == 0 ? nullptr : limit.data(), world_size};
  compress(stream, in.data(), n, scale, residual.empty() ? nullptr : kept.data(), dtype, sent.data());
  decompress(stream, dtype, sent.data(), n, scale, out.data());
  return {out.doubles(), kept.doubles()};
}

}  // namespace

TEST_CASE("largest_abs: the largest absolute value, infinity for NaN", "[compress]") {
  on_every_device([](Device device, const Stream& stream) {
    const auto largest = [&](const std::vector<float>& x) {
      const DeviceArray<float> values(device, x);
      const DeviceArray<float> result(device, 1);
      largest_abs(stream, values.data(), static_cast<std::int64_t>(x.size()), result.data());
      return result.host()[0];
    };
    for (std::int64_t n : {1, 7, 64, 1000, 100003}) {
      INFO(n);
      std::vector<float> x = random_values<float>(n, 3);
      const auto place = static_cast<std::size_t>(n / 2);
      x[place] = -17;
      CHECK(largest(x) == 17);
      x.back() = NAN;
      CHECK(largest(x) == INFINITY);
      x.back() = -INFINITY;
      CHECK(largest(x) == INFINITY);
    }
    CHECK(largest({}) == 0);
    CHECK(largest({0, -0.0f}) == 0);
  });
}

TEST_CASE("compress: f16 keeps its precision at any size of the elements", "[compress]") {
  on_every_device([](Device device, const Stream& stream) {
    for (double size : {1e-41, 1e-38, 1e-20, 1.0, 4096.0, 65504.0, 1e20, 1e37}) {
      for (int world_size : {1, 3, 8}) {
        INFO("elements of " << size << ", " << world_size << " ranks");
        std::vector<float> x;
        for (float u : random_values<float>(1001, 5, -1, 1)) x.push_back(static_cast<float>(u * size));
        x.push_back(static_cast<float>(size));
        const RoundTrip result =
            round_trip<float16>(device, stream, x, {}, static_cast<float>(size), world_size);
        // Relative down to 2^-28 ranks of the largest, absolute below it; f32 itself ends at 2^-149.
        const double smallest = std::ldexp(size * world_size, -28 - 11) + 0x1p-149;
        CHECK(worst_error(result.values, to_doubles(x), rounding<float16>(), smallest) <= 1);
      }
    }
  });
}

TEST_CASE("compress: sums over the ranks stay within the range of f16", "[compress]") {
  for (int world_size : {1, 2, 3, 7, 64}) {
    for (float largest : {1.0f, 1.9999999f, 65504.0f, 1e-30f}) {
      INFO(world_size << " ranks, " << largest);
      const Device device;
      const DeviceArray<float> x(device, {largest, -largest});
      const DeviceArray<float16> sent(device, 2);
      compress(Stream::current(device), x.data(), std::int64_t{2}, CompressionScale{x.data(), world_size},
               static_cast<float*>(nullptr), DType::f16, sent.data());
      CHECK(sent.doubles()[0] * world_size <= 32768 * (1 + 0x1p-10));
      CHECK(sent.doubles()[0] * world_size >= 16384 * (1 - 0x1p-10));
      CHECK(sent.doubles()[1] == -sent.doubles()[0]);
    }
  }
}

TEST_CASE("compress: infinities and NaN stay, zeros stay", "[compress]") {
  on_every_device([](Device device, const Stream& stream) {
    const std::vector<float> x = {INFINITY, -INFINITY, NAN, 0, 3};
    for (const RoundTrip& result : {round_trip<float16>(device, stream, x, {0, 0, 0, 0, 0}, INFINITY, 4),
                                    round_trip<bfloat16>(device, stream, x, {0, 0, 0, 0, 0}, 0, 4)}) {
      CHECK(worst_error(result.values, {INFINITY, -INFINITY, NAN, 0, 3}, 0) == 0);
      CHECK(result.residual == std::vector<double>(5, 0.0));
    }
    const DeviceArray<float> zero(device, 1), out(device, 1);
    const DeviceArray<float16> sent(device, 1);
    const CompressionScale scale{zero.data(), 4};
    compress(stream, zero.data(), std::int64_t{1}, scale, static_cast<float*>(nullptr), DType::f16,
             sent.data());
    decompress(stream, DType::f16, sent.data(), std::int64_t{1}, scale, out.data());
    CHECK(out.host()[0] == 0);
  });
}

TEST_CASE("compress: the sent values and the residual add up to the whole", "[compress]") {
  on_every_device([](Device device, const Stream& stream) {
    const std::vector<float> x = random_values<float>(1003, 5),
                             before = random_values<float>(1003, 6, -0.01, 0.01);
    std::vector<double> whole;
    for (std::size_t i = 0; i < x.size(); ++i) whole.push_back(static_cast<float>(x[i] + before[i]));
    const auto check = [&](const RoundTrip& result, double rounding_of_dtype) {
      std::vector<double> sum;
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum.push_back(result.values[i] + result.residual[i]);
        CHECK(std::abs(result.residual[i]) <= rounding_of_dtype * std::abs(whole[i]) + 1e-9);
      }
      CHECK(worst_error(sum, whole, 0) == 0);  // the difference of neighbours is exact in f32
    };
    check(round_trip<float16>(device, stream, x, before, 2.02f, 2), rounding<float16>());
    check(round_trip<bfloat16>(device, stream, x, before, 0, 2), rounding<bfloat16>());
  });
}

TEST_CASE("compress: only f16 and bf16 are accepted", "[compress]") {
  const Device device;
  const DeviceArray<float> x(device, 4);
  const DeviceArray<float> y(device, 4);
  const CompressionScale scale{nullptr, 1};
  CHECK_THROWS_WITH(compress(Stream::current(device), x.data(), std::int64_t{4}, scale,
                             static_cast<float*>(nullptr), DType::f32, y.data()),
                    ContainsSubstring("compress: no kernel for elements of type f32"));
  CHECK_THROWS_WITH(
      decompress(Stream::current(device), DType::i32, y.data(), std::int64_t{4}, scale, x.data()),
      ContainsSubstring("decompress: no kernel for elements of type i32"));
}

}  // namespace ringtape::test
