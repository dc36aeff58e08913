#include "kernels/reduce.h"

#include <limits>

#include "tests/kernel_test.h"

namespace ringtape::test {
namespace {

struct Extents {
  std::int64_t outer, mid, inner;
};

// Rows, columns and slabs; few sums of many elements are shared among blocks, many sums of few are not.
const std::vector<Extents> kExtents = {
    {1, 0, 1},    {1, 1, 1},  {1, 31, 1},    {1, 257, 1},    {1, 300001, 1}, {3, 40000, 1},
    {5000, 3, 1}, {1, 5, 33}, {1, 1000, 10}, {1, 20001, 70}, {2, 700, 31},   {3, 4, 5},
    {2, 0, 3},    {0, 4, 3},  {257, 2, 2},   {1, 3, 5000},
};

/// The sums, and the sums of absolute values that errors are measured against.
template <class T>
void reference(const std::vector<T>& x, const Extents& e, std::vector<double>& sums,
               std::vector<double>& sizes) {
  sums.assign(static_cast<std::size_t>(e.outer * e.inner), 0.0);
  sizes = sums;
  for (std::int64_t o = 0; o < e.outer; ++o) {
    for (std::int64_t m = 0; m < e.mid; ++m) {
      for (std::int64_t i = 0; i < e.inner; ++i) {
        const double value = to_double(x[static_cast<std::size_t>((o * e.mid + m) * e.inner + i)]);
        sums[static_cast<std::size_t>(o * e.inner + i)] += value;
        sizes[static_cast<std::size_t>(o * e.inner + i)] += std::abs(value);
      }
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("sum_dim over rows, columns and everything", "[reduce]", float, double, bfloat16,
                   float16) {
  using T = TestType;
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  on_every_device<T>([&](Device device, const Stream& stream) {
    for (const Extents& e : kExtents) {
      INFO(e.outer << " x " << e.mid << " x " << e.inner);
      const std::vector<T> values = random_values<T>(e.outer * e.mid * e.inner, 5);
      std::vector<double> sums, sizes;
      reference(values, e, sums, sizes);
      const DeviceArray<T> x(device, values);
      DeviceArray<A> y(device, e.outer * e.inner, A{3}), again(device, e.outer * e.inner);
      sum_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, 0.5, dtype_of<A>, y.data(), true);
      sum_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, 0.5, dtype_of<A>, again.data(), false);
      double worst = 0, worst_accumulated = 0;
      const std::vector<double> plain = again.doubles(), accumulated = y.doubles();
      for (std::size_t k = 0; k < sums.size(); ++k) {
        const double allowed = 16 * rounding<A>() * (sizes[k] + 1);
        worst = std::max(worst, std::abs(plain[k] - 0.5 * sums[k]) / allowed);
        worst_accumulated =
            std::max(worst_accumulated, std::abs(accumulated[k] - 0.5 * sums[k] - 3) / allowed);
      }
      CHECK(worst <= 1);
      CHECK(worst_accumulated <= 1);

      DeviceArray<T> own_type(device, e.outer * e.inner);
      sum_dim(stream, dtype_of<T>, x.data(), e.outer, e.mid, e.inner, 0.5, dtype_of<T>, own_type.data(),
              false);
      CHECK(own_type.doubles() == to_doubles(convert<T>(again.doubles())));
    }
  });
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

namespace {

/// Parameters of these lengths in one arena, cut into tiles.
std::vector<Tile> tiles_of(const std::vector<std::int64_t>& lengths, std::int64_t& arena_length) {
  std::vector<Tile> tiles;
  arena_length = 0;
  for (std::size_t p = 0; p < lengths.size(); ++p) {
    for (std::int64_t first = 0; first < lengths[p]; first += kTileElements) {
      const std::int64_t length = std::min<std::int64_t>(kTileElements, lengths[p] - first);
      tiles.push_back(
          {arena_length + first, static_cast<std::int32_t>(length), static_cast<std::int32_t>(p)});
    }
    arena_length += (lengths[p] + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
  }
  return tiles;
}

GradientNorm run_gradient_norm(Device device, const Stream& stream, const std::vector<float>& gradients,
                               const std::vector<Tile>& tiles, const std::vector<std::uint8_t>& present,
                               float max_norm) {
  const DeviceArray<float> values(device, gradients);
  const DeviceArray<Tile> table(device, tiles);
  const DeviceArray<std::uint8_t> flags(device, present);
  DeviceArray<GradientNorm> result(device, 1);
  gradient_norm(stream, values.data(), table.data(), static_cast<std::int64_t>(tiles.size()), flags.data(),
                max_norm, result.data());
  return result.host()[0];
}

}  // namespace

TEST_CASE("gradient_norm covers the present parameters and no padding", "[reduce]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({1, 31, 20000, 64, 8192, 300}, length);
  const std::vector<std::uint8_t> present = {1, 1, 1, 0, 1, 1};
  std::vector<float> gradients(static_cast<std::size_t>(length), 1e6f);  // padding must not be read
  const std::vector<float> values = random_values<float>(length, 5);
  double squares = 0;
  for (const Tile& tile : tiles) {
    for (std::int64_t i = tile.offset; i < tile.offset + tile.length; ++i) {
      const auto index = static_cast<std::size_t>(i);
      gradients[index] = values[index];
      if (present[static_cast<std::size_t>(tile.parameter)] != 0) squares += values[index] * values[index];
    }
  }
  on_every_device([&](Device device, const Stream& stream) {
    const GradientNorm small = run_gradient_norm(device, stream, gradients, tiles, present, 1.5f);
    const double norm = std::sqrt(squares);
    CHECK(worst_error({small.norm, small.clip_factor}, {norm, 1.5 / (norm + 1e-6)}, 4 * rounding<float>()) <=
          1);
    CHECK(small.nonfinite == 0);
    const GradientNorm large = run_gradient_norm(device, stream, gradients, tiles, present, 1e6f);
    CHECK(large.clip_factor == 1);
    CHECK(large.norm == small.norm);
    CHECK(run_gradient_norm(device, stream, gradients, tiles, present, INFINITY).clip_factor == 1);
  });
}

TEST_CASE("gradient_norm of many tiles, of none, of zeros, infinity and NaN", "[reduce]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of(std::vector<std::int64_t>(2500, 3), length);
  const std::vector<std::uint8_t> present(2500, 1);
  on_every_device([&](Device device, const Stream& stream) {
    std::vector<float> gradients(static_cast<std::size_t>(length), 2.0f);
    const float norm = run_gradient_norm(device, stream, gradients, tiles, present, 1.0f).norm;
    CHECK(worst_error({norm}, {std::sqrt(4.0 * 3 * 2500)}, 4 * rounding<float>()) <= 1);
    CHECK(run_gradient_norm(device, stream, gradients, {}, present, 1.0f).norm == 0);
    gradients.assign(gradients.size(), 0.0f);
    const GradientNorm zero = run_gradient_norm(device, stream, gradients, tiles, present, 1.0f);
    CHECK(zero.norm == 0);
    CHECK(zero.clip_factor == 1);
    gradients[64] = INFINITY;
    const GradientNorm infinite = run_gradient_norm(device, stream, gradients, tiles, present, 1.0f);
    CHECK(std::isinf(infinite.norm));
    CHECK(infinite.clip_factor == 0);
    CHECK(infinite.nonfinite == 1);
    gradients[128] = NAN;
    const GradientNorm nan = run_gradient_norm(device, stream, gradients, tiles, present, 1.0f);
    CHECK(std::isnan(nan.norm));
    CHECK(std::isnan(nan.clip_factor));
    CHECK(nan.nonfinite == 1);
  });
}

TEST_CASE("clip_value clamps to both limits and keeps NaN", "[reduce]") {
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> x(device, {-3, -0.5f, 0, 0.5f, 3, INFINITY, -INFINITY, NAN});
    clip_value(stream, x.data(), std::int64_t{8}, 0.75f);
    CHECK(worst_error(x.doubles(), {-0.75, -0.5, 0, 0.5, 0.75, 0.75, -0.75, NAN}, 0) == 0);
  });
}

}  // namespace ringtape::test
