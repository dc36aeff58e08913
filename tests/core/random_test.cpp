#include "kernels/random.h"

#include "kernels/common/box_muller.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {

TEST_CASE("Philox4x32-10 gives the values of its authors", "[random]") {
  // Known answers of the Random123 library, for counters and keys of all zeros and all ones.
  const on_cpu::Philox4 zeros = on_cpu::philox4x32_10(0, 0, 0);
  CHECK(zeros.x == 0x6627e8d5u);
  CHECK(zeros.y == 0xe169c58du);
  CHECK(zeros.z == 0xbc57ac4cu);
  CHECK(zeros.w == 0x9b00dbd8u);
  const on_cpu::Philox4 ones = on_cpu::philox4x32_10(~0ull, ~0ull, ~0ull);
  CHECK(ones.x == 0x408f276du);
  CHECK(ones.y == 0x41c83b0eu);
  CHECK(ones.z == 0xa20bc7c6u);
  CHECK(ones.w == 0x6d5451fdu);
}

TEST_CASE("uniform takes word i % 4 of counter offset + i / 4", "[random]") {
  on_every_device([&](Device device, const Stream& stream) {
    for (const std::int64_t n : {0, 1, 3, 4, 31, 33, 20001}) {
      std::vector<float> expected;
      for (std::int64_t i = 0; i < n; ++i) {
        const on_cpu::Philox4 bits = on_cpu::philox4x32_10(42, 1000 + static_cast<std::uint64_t>(i / 4), 0);
        const std::uint32_t words[] = {bits.x, bits.y, bits.z, bits.w};
        expected.push_back(std::fma(5.0f, on_cpu::uniform_float(words[i % 4]), -2.0f));
      }
      DeviceArray<float> x(device, n);
      uniform(stream, DType::f32, x.data(), n, -2.0f, 3.0f, std::uint64_t{42}, std::uint64_t{1000});
      CHECK(x.host() == expected);
    }
  });
}

TEST_CASE("uniform stays below its upper bound when rounding would reach it", "[random]") {
  on_every_device([&](Device device, const Stream& stream) {
    const std::int64_t n = 100000;
    DeviceArray<float> x(device, n);
    uniform(stream, DType::f32, x.data(), n, 1.0f, 1.0000005f, std::uint64_t{1}, std::uint64_t{0});
    const std::vector<double> values = x.doubles();
    CHECK(*std::max_element(values.begin(), values.end()) < 1.0000005);
    CHECK(*std::min_element(values.begin(), values.end()) == 1);
  });
}

TEMPLATE_TEST_CASE("uniform stays below its upper bound in 16 bits too", "[random]", bfloat16, float16) {
  on_every_device<TestType>([&](Device device, const Stream& stream) {
    const std::int64_t n = 100000;
    DeviceArray<TestType> x(device, n);
    uniform(stream, dtype_of<TestType>, x.data(), n, 0.0f, 1.0f, std::uint64_t{1}, std::uint64_t{0});
    const std::vector<double> values = x.doubles();
    CHECK(*std::max_element(values.begin(), values.end()) < 1);
  });
}

TEMPLATE_TEST_CASE("normal is Box and Muller's transform of the same words", "[random]", float, double,
                   bfloat16, float16) {
  using T = TestType;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const std::int64_t n : {0, 1, 3, 5, 20002}) {
      std::vector<double> expected;
      for (std::int64_t i = 0; i < n; ++i) {
        const on_cpu::Philox4 bits = on_cpu::philox4x32_10(42, 7 + static_cast<std::uint64_t>(i / 4), 0);
        const double u = (i % 4 < 2 ? bits.x : bits.z) + 0.5;
        const double v = i % 4 < 2 ? bits.y : bits.w;
        const double radius = std::sqrt(-2 * std::log(std::ldexp(u, -32)));
        const double angle = 2 * M_PI * std::ldexp(v, -32);
        expected.push_back(1.5 + 0.25 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
      }
      DeviceArray<T> x(device, n);
      normal(stream, dtype_of<T>, x.data(), n, 1.5f, 0.25f, std::uint64_t{42}, std::uint64_t{7});
      // Six roundings of the deviate, one of the sum and one to T.
      const double last = rounding<float>() + (sizeof(T) == 2 ? rounding<T>() : 0);
      const double of_deviate = 6 * rounding<float>() * 0.25 * std::sqrt(2 * std::log(0x1p33));
      CHECK(worst_error(x.doubles(), expected, 1.001 * last, of_deviate) <= 1);
    }
  });
}

TEST_CASE("normal gives the same bits on every device", "[random]") {
  std::vector<float> expected;
  on_every_device([&](Device device, const Stream& stream) {
    DeviceArray<float> x(device, 20002);
    normal(stream, DType::f32, x.data(), std::int64_t{20002}, 1.5f, 0.25f, std::uint64_t{42},
           std::uint64_t{7});
    if (expected.empty()) expected = x.host();
    CHECK(x.host() == expected);
  });
}

TEST_CASE("normal_pair is within six roundings of the exact transform, and finite for every word",
          "[random]") {
  double worst = 0;
  for (std::int64_t i = 0; i < 400000; ++i) {
    const on_cpu::Philox4 bits = on_cpu::philox4x32_10(1, static_cast<std::uint64_t>(i), 0);
    // Words of every size, from 0 and from the largest; angles near the axes.
    const std::uint32_t small = bits.x >> bits.z % 32, near_axis = (bits.w << 30) + (bits.y >> bits.z % 32);
    const std::uint32_t word0 = i % 3 == 0 ? bits.x : i % 3 == 1 ? small : ~small;
    const std::uint32_t word1 = i % 2 == 0 ? bits.y : near_axis;
    const double radius = std::sqrt(-2 * std::log(std::ldexp(word0 + 0.5, -32)));
    const double angle = 2 * M_PI * std::ldexp(word1, -32);
    const on_cpu::NormalPair pair = on_cpu::normal_pair(word0, word1, 0, 1);
    // 1e-14: the reference's own error, of an angle below 2 pi rounded to double, times a radius below 7
    const std::vector<double> expected = {radius * std::cos(angle), radius * std::sin(angle)};
    worst = std::max(worst, worst_error({pair.first, pair.second}, expected, 6 * rounding<float>(), 1e-14));
  }
  CHECK(worst <= 1);
}

TEST_CASE("normal has the moments of a normal distribution", "[random]") {
  const std::int64_t n = 1000000;
  DeviceArray<float> x(Device{}, n);
  normal(Stream::current({}), DType::f32, x.data(), n, 0.0f, 1.0f, std::uint64_t{3}, std::uint64_t{0});
  double moments[5] = {};
  for (const double value : x.doubles()) {
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(value, k) / static_cast<double>(n);
  }
  // Five standard errors of the mean of z, z^2, z^3 and z^4: sqrt(1, 2, 15, 96) / 1000.
  CHECK(std::abs(moments[1]) < 5 * 0.001);
  CHECK(std::abs(moments[2] - 1) < 5 * 0.001415);
  CHECK(std::abs(moments[3]) < 5 * 0.003873);
  CHECK(std::abs(moments[4] - 3) < 5 * 0.009798);
}

}  // namespace ringtape::test
