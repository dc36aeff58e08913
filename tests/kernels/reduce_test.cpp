#include "kernels/reduce.h"

#include "tests/support/check_build.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

struct Extents {
  std::int64_t outer, mid, inner;
};

// In check builds less, but still several parts.
constexpr std::int64_t kMany = kCheckBuild ? 2001 : 20001, kLong = kCheckBuild ? 60001 : 300001,
                       kTall = kCheckBuild ? 600 : 3000;

// Rows, columns and slabs; few sums of many elements are shared among blocks, many sums of few are not.
const std::vector<Extents> kExtents = {
    {1, 0, 1},    {1, 1, 1},  {1, 31, 1},    {1, 257, 1},    {1, kLong, 1},   {3, 40000, 1},
    {9000, 3, 1}, {1, 5, 33}, {1, 1000, 10}, {1, kMany, 70}, {2, 700, 31},    {3, 4, 5},
    {2, 0, 3},    {0, 4, 3},  {257, 2, 2},   {1, 3, 5000},   {1, kTall, 600}, {2, 1025, 64},
};

/// Odd multiples of 1/16 up to 31/16. A float holds any sum of 300001 of them, so sums are exact in any
/// order, and none of them is 0: an element that is left out or counted twice changes its sum.
template <class T>
std::vector<T> random_odd(std::int64_t n) {
  std::vector<T> values = random_values<T>(n, 5);
  for (T& value : values) value = from_double<T>((2 * std::floor(7.5 * to_double(value)) + 1) / 16);
  return values;
}

template <class T>
std::vector<double> reference(const std::vector<T>& x, const Extents& e) {
  std::vector<double> sums(static_cast<std::size_t>(e.outer * e.inner));
  for (std::int64_t o = 0; o < e.outer; ++o) {
    for (std::int64_t m = 0; m < e.mid; ++m) {
      for (std::int64_t i = 0; i < e.inner; ++i) {
        sums[static_cast<std::size_t>(o * e.inner + i)] +=
            to_double(x[static_cast<std::size_t>((o * e.mid + m) * e.inner + i)]);
      }
    }
  }
  return sums;
}

}  // namespace

TEMPLATE_TEST_CASE("sum_dim over rows, columns and everything", "[reduce]", float, double, bfloat16,
                   float16) {
  using T = TestType;
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const Extents& e : kExtents) {
      INFO(e.outer << " x " << e.mid << " x " << e.inner);
      const std::vector<T> values = random_odd<T>(e.outer * e.mid * e.inner);
      std::vector<double> halves, accumulated;
      for (const double sum : reference(values, e)) {
        halves.push_back(0.5 * sum);
        accumulated.push_back(3 + 0.5 * sum);
      }
      const DeviceArray<T> x(device, values);
      DeviceArray<A> y(device, e.outer * e.inner, A{3}), again(device, e.outer * e.inner);
      sum_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, 0.5, dtype_of<A>, y.data(), true);
      sum_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, 0.5, dtype_of<A>, again.data(), false);
      CHECK(worst_error(again.doubles(), halves, 0, 1) == 0);
      CHECK(worst_error(y.doubles(), accumulated, 0, 1) == 0);

      DeviceArray<T> own_type(device, e.outer * e.inner);
      sum_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, 0.5, dtype_of<T>, own_type.data(),
              false);
      CHECK(worst_error(own_type.doubles(), to_doubles(convert<T>(halves)), 0, 1) == 0);
    }
  });
}

TEST_CASE("broadcast_dim of more rows than a grid has blocks is an error", "[reduce]") {
  on_every_device([](Device, const Stream& stream) {
    CHECK_THROWS_WITH(broadcast_dim(stream, DType::f32, nullptr, std::int64_t{1} << 31, std::int64_t{2},
                                    std::int64_t{1}, 1.0, nullptr, false),
                      ContainsSubstring("2147483648 blocks: expected at most 2147483647"));
  });
}

TEST_CASE("sum_dim gives the same bits every time", "[reduce]") {
  for (const Extents& e : {Extents{1, 5000, 33}, Extents{1, 5000, 64}, Extents{3, 40000, 1}}) {
    const std::vector<float> values = random_values<float>(e.outer * e.mid * e.inner, 5);
    std::vector<float> expected;
    on_every_device([&](Device device, const Stream& stream) {
      const DeviceArray<float> x(device, values), first(device, e.outer * e.inner),
          second(device, e.outer * e.inner);
      for (const DeviceArray<float>* y : {&first, &second}) {
        sum_dim(stream, DType::f32, x.data(), e.outer, e.mid, e.inner, 1.0, DType::f32, y->data(), false);
      }
      CHECK(first.host() == second.host());
      if (device.is_cuda()) return;
      if (expected.empty()) expected = first.host();
      CHECK(first.host() == expected);  // in any order of the threads
    });
  }
}

TEMPLATE_TEST_CASE("broadcast_dim repeats along the dimension", "[reduce]", float, double, bfloat16,
                   float16) {
  using T = TestType;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const Extents& e : kExtents) {
      INFO(e.outer << " x " << e.mid << " x " << e.inner);
      const std::vector<T> values = random_values<T>(e.outer * e.inner, 5);
      std::vector<double> once, twice;
      for (std::int64_t o = 0; o < e.outer; ++o) {
        for (std::int64_t m = 0; m < e.mid; ++m) {
          for (std::int64_t i = 0; i < e.inner; ++i) {
            once.push_back(-0.5 * to_double(values[static_cast<std::size_t>(o * e.inner + i)]));
            twice.push_back(2 * once.back());
          }
        }
      }
      const DeviceArray<T> x(device, values);
      DeviceArray<T> y(device, e.outer * e.mid * e.inner);
      broadcast_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, -0.5, y.data(), false);
      CHECK(y.doubles() == once);
      broadcast_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, -0.5, y.data(), true);
      CHECK(y.doubles() == twice);
    }
  });
}

}  // namespace ringtape::test
