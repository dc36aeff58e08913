#include "kernels/clip.h"

#include "core/ceil_div.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
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
    arena_length += round_up(lengths[p], kTileAlignment);
  }
  return tiles;
}

/// With a loss scale if that is not 0.
GradientNorm run_gradient_norm(Device device, const Stream& stream, const std::vector<float>& gradients,
                               const std::vector<Tile>& tiles, const std::vector<std::uint8_t>& has_grad,
                               float max_norm, double norm_type = 2, float loss_scale = 0) {
  const DeviceArray<float> values(device, gradients);
  const DeviceArray<Tile> table(device, tiles);
  const DeviceArray<std::uint8_t> flags(device, has_grad);
  DeviceArray<GradientNorm> result(device, 1);
  const DeviceArray<float> scale(device, {loss_scale});
  const GradientNormProblem problem{
      values.data(), table.data(), static_cast<std::int64_t>(tiles.size()), flags.data(),
      norm_type,     max_norm,     loss_scale == 0 ? nullptr : scale.data()};
  gradient_norm(stream, problem, result.data());
  return result.host()[0];
}

}  // namespace

TEST_CASE("gradient_norm covers the parameters that have a gradient and no padding", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({1, 31, 20000, 64, 8192, 300}, length);
  const std::vector<std::uint8_t> has_grad = {1, 1, 1, 0, 1, 1};
  std::vector<float> gradients(static_cast<std::size_t>(length), 1e6f);  // padding must not be read
  const std::vector<float> values = random_values<float>(length, 5);
  double squares = 0;
  for (const Tile& tile : tiles) {
    for (std::int64_t i = tile.offset; i < tile.offset + tile.length; ++i) {
      const auto index = static_cast<std::size_t>(i);
      gradients[index] = values[index];
      if (has_grad[static_cast<std::size_t>(tile.parameter)] != 0) squares += values[index] * values[index];
    }
  }
  on_every_device([&](Device device, const Stream& stream) {
    const GradientNorm small = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.5f);
    const double norm = std::sqrt(squares);
    CHECK(worst_error({small.norm, small.clip_factor}, {norm, 1.5 / (norm + 1e-6)}, 4 * rounding<float>()) <=
          1);
    CHECK(small.nonfinite == 0);
    const GradientNorm large = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1e6f);
    CHECK(large.clip_factor == 1);
    CHECK(large.norm == small.norm);
    CHECK(run_gradient_norm(device, stream, gradients, tiles, has_grad, INFINITY).clip_factor == 1);
  });
}

TEST_CASE("gradient_norm adds 1e-6 to the norm of the unscaled gradients, as PyTorch does", "[clip]") {
  on_every_device([&](Device device, const Stream& stream) {
    for (const float loss_scale : {1.0f, 1024.0f}) {
      INFO("loss scale " << loss_scale);
      const GradientNorm found =
          run_gradient_norm(device, stream, {loss_scale * 1e-6f}, {Tile{0, 1, 0}}, {1}, 1e-6f, 2, loss_scale);
      CHECK(worst_error({found.norm, found.clip_factor}, {1e-6, 0.5}, 4 * rounding<float>()) <= 1);
    }
  });
}

TEST_CASE("gradient_norm of many tiles", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of(std::vector<std::int64_t>(2500, 3), length);
  const std::vector<float> gradients(static_cast<std::size_t>(length), 2.0f);
  const std::vector<std::uint8_t> has_grad(2500, 1);
  on_every_device([&](Device device, const Stream& stream) {
    const float norm = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f).norm;
    CHECK(worst_error({norm}, {std::sqrt(4.0 * 3 * 2500)}, 4 * rounding<float>()) <= 1);
  });
}

TEST_CASE("gradient_norm of no tiles, of zeros, infinity and NaN", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of(std::vector<std::int64_t>(70, 3), length);
  const std::vector<std::uint8_t> has_grad(70, 1);
  on_every_device([&](Device device, const Stream& stream) {
    std::vector<float> gradients(static_cast<std::size_t>(length), 2.0f);
    CHECK(run_gradient_norm(device, stream, gradients, {}, has_grad, 1.0f).norm == 0);
    gradients.assign(gradients.size(), 0.0f);
    const GradientNorm zero = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f);
    CHECK(zero.norm == 0);
    CHECK(zero.clip_factor == 1);
    gradients[64] = INFINITY;
    const GradientNorm infinite = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f);
    CHECK(std::isinf(infinite.norm));
    CHECK(infinite.clip_factor == 0);
    CHECK(infinite.nonfinite == 1);
    // Without a limit nothing changes, even if the norm of two large gradients overflows.
    gradients[64] = gradients[128] = 3e38f;
    const GradientNorm measured = run_gradient_norm(device, stream, gradients, tiles, has_grad, INFINITY);
    CHECK(measured.clip_factor == 1);
    CHECK(std::isinf(measured.norm));
    CHECK(measured.nonfinite == 1);
    gradients[128] = NAN;
    const GradientNorm nan = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f);
    CHECK(std::isnan(nan.norm));
    CHECK(std::isnan(nan.clip_factor));
    CHECK(nan.nonfinite == 1);
  });
}

TEST_CASE("clip_value clamps to both limits and keeps what is not finite", "[clip]") {
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> x(device, {-3, -0.5f, 0, 0.5f, 3, INFINITY, -INFINITY, NAN});
    clip_value(stream, x.data(), std::int64_t{8}, 0.75f, nullptr);
    CHECK(worst_error(x.doubles(), {-0.75, -0.5, 0, 0.5, 0.75, INFINITY, -INFINITY, NAN}, 0) == 0);
  });
}

TEST_CASE("clip_value of gradients under a loss scale", "[clip]") {
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> x(device, {-3, -0.5f, 0.5f, 3}), scale(device, {2});
    clip_value(stream, x.data(), std::int64_t{4}, 0.75f, scale.data());
    CHECK(x.doubles() == std::vector<double>{-1.5, -0.5, 0.5, 1.5});
  });
}

TEST_CASE("gradient_norm of any order", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({1, 31, 20000, 64, 8192, 300}, length);
  const std::vector<std::uint8_t> has_grad = {1, 1, 1, 0, 1, 1};
  std::vector<float> gradients = random_values<float>(length, 5);
  gradients[2 * 64 + 19999] = -7;  // the last element of the third parameter is the largest
  for (const double p : {0.5, 1.0, 2.0, 2.5, 3.0, 40.0, HUGE_VAL}) {
    INFO("norm of order " << p);
    double total = 0;
    for (const Tile& tile : tiles) {
      if (has_grad[static_cast<std::size_t>(tile.parameter)] == 0) continue;
      for (std::int64_t i = tile.offset; i < tile.offset + tile.length; ++i) {
        const double size = std::abs(gradients[static_cast<std::size_t>(i)]);
        total = std::isinf(p) ? std::max(total, size) : total + std::pow(size, p);
      }
    }
    const double norm = std::isinf(p) ? total : std::pow(total, 1 / p);
    on_every_device([&](Device device, const Stream& stream) {
      const GradientNorm found = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.5f, p);
      CHECK(worst_error({found.norm, found.clip_factor}, {norm, 1.5 / (norm + 1e-6)},
                        4 * rounding<float>()) <= 1);
      CHECK(found.nonfinite == 0);
    });
  }
}

TEST_CASE("gradient_norm finds what float can hold, though the powers leave its range", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({300, 9000}, length);
  const std::vector<std::uint8_t> has_grad = {1, 1};
  const auto norm_of_equal = [](double size, double p) {  // of 9300 equal elements
    return std::isinf(p) ? size : size * std::pow(9300, 1 / p);
  };
  on_every_device([&](Device device, const Stream& stream) {
    for (const double p : {0.25, 1.0, 2.0, 3.0, 1000.0, 1e6, HUGE_VAL}) {
      // 1e-43 is 71 times the least float; 1e34 times 9300 is just within the range.
      for (const float size : {1e-43f, 1e-30f, 0.01f, 1.0f, 1e20f, 1e34f}) {
        if (norm_of_equal(size, p) > 3.4e38) continue;
        INFO("norm of order " << p << " of " << size);
        const std::vector<float> gradients(static_cast<std::size_t>(length), size);
        const GradientNorm found = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f, p);
        CHECK(worst_error({found.norm}, {norm_of_equal(size, p)}, 4 * rounding<float>(), 1e-45) <= 1);
        CHECK(found.nonfinite == 0);
      }
    }
    // 9300^10 times 0.01 is 5e37, and ten times as much is outside of the range.
    std::vector<float> gradients(static_cast<std::size_t>(length), 0.01f);
    const GradientNorm last = run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f, 0.1);
    CHECK(worst_error({last.norm}, {norm_of_equal(0.01f, 0.1)}, 4 * rounding<float>()) <= 1);
    gradients.assign(gradients.size(), 0.1f);
    CHECK(run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f, 0.1).nonfinite == 1);
    gradients.assign(gradients.size(), 0.0f);
    CHECK(run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f, 3).norm == 0);
    CHECK(run_gradient_norm(device, stream, gradients, tiles, has_grad, 1.0f, 1000, 8).norm == 0);
  });
}

TEST_CASE("a norm of any order is infinite or NaN where a gradient is", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({9000, 300, 5}, length);
  const std::vector<std::uint8_t> has_grad = {1, 1, 0};
  for (const double p : {0.5, 1.0, 2.0, 3.0, HUGE_VAL}) {
    // In the first, the second tile, another parameter, the last element of a tile.
    for (const std::size_t place : {std::size_t{0}, std::size_t{8500}, std::size_t{9024 + 299}}) {
      INFO("norm of order " << p << ", element " << place);
      on_every_device([&](Device device, const Stream& stream) {
        std::vector<float> gradients = random_values<float>(length, 6);
        gradients[static_cast<std::size_t>(length) - 64] = NAN;  // of the absent parameter
        const auto norm_with = [&](float value) {
          gradients[place] = value;
          return run_gradient_norm(device, stream, gradients, tiles, has_grad, 1, p);
        };
        CHECK(norm_with(1).nonfinite == 0);
        CHECK(std::isinf(norm_with(-INFINITY).norm));
        CHECK(norm_with(-INFINITY).nonfinite == 1);
        CHECK(std::isnan(norm_with(NAN).norm));
        CHECK(norm_with(NAN).nonfinite == 1);
      });
    }
  }
}

TEST_CASE("with a loss scale the norm is that of the unscaled gradients", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({9000, 300}, length);
  const std::vector<std::uint8_t> has_grad = {1, 1};
  const std::vector<float> gradients = random_values<float>(length, 7);
  std::vector<float> scaled = gradients;
  for (float& g : scaled) g *= 1024;
  on_every_device([&](Device device, const Stream& stream) {
    for (const double p : {1.0, 2.0, 3.0, HUGE_VAL}) {
      for (const float max_norm : {0.5f, 1e9f, INFINITY}) {
        const GradientNorm plain = run_gradient_norm(device, stream, gradients, tiles, has_grad, max_norm, p);
        const GradientNorm found =
            run_gradient_norm(device, stream, scaled, tiles, has_grad, max_norm, p, 1024);
        CHECK(worst_error({found.norm, found.clip_factor}, {plain.norm, plain.clip_factor},
                          rounding<float>()) <= 1);
      }
    }
  });
}

TEST_CASE("clip_gradients scales the gradients that are defined, in memory, and leaves a loss scale in it",
          "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({9001, 33, 5}, length);
  const std::vector<std::uint8_t> has_grad = {1, 0, 1};
  const std::vector<float> before = random_values<float>(length, 8);
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<Tile> table(device, tiles);
    const DeviceArray<std::uint8_t> flags(device, has_grad);
    const DeviceArray<float> scale(device, {8});
    const DeviceArray<GradientNorm> result(device, 1);
    for (const bool scaled : {false, true}) {
      for (const float max_norm : {1e6f, 1.0f}) {
        const DeviceArray<float> gradients(device, before);
        const GradientNormProblem problem{gradients.data(),
                                          table.data(),
                                          static_cast<std::int64_t>(tiles.size()),
                                          flags.data(),
                                          2,
                                          max_norm,
                                          scaled ? scale.data() : nullptr};
        gradient_norm(stream, problem, result.data());
        clip_gradients(stream, problem, result.data(), gradients.data());
        const double norm = result.host()[0].norm;
        const double factor = std::min(1.0, max_norm / (norm + 1e-6));
        CHECK((factor < 1) == (max_norm == 1));
        std::vector<double> expected = to_doubles(before);
        for (const Tile& tile : tiles) {
          if (tile.parameter == 1) continue;
          for (std::int64_t i = 0; i < tile.length; ++i) {
            expected[static_cast<std::size_t>(tile.offset + i)] *= factor;
          }
        }
        CHECK(worst_error(gradients.doubles(), expected, 4 * rounding<float>()) <= 1);
      }
    }
  });
}

TEST_CASE("clip_gradients leaves the gradients as they are where their norm is not finite", "[clip]") {
  std::int64_t length = 0;
  const std::vector<Tile> tiles = tiles_of({9001, 33}, length);
  const std::vector<std::uint8_t> has_grad = {1, 1};
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<Tile> table(device, tiles);
    const DeviceArray<std::uint8_t> flags(device, has_grad);
    const DeviceArray<GradientNorm> result(device, 1);
    for (const float bad : {3e38f, INFINITY, NAN}) {
      std::vector<float> before = random_values<float>(length, 9);
      before[2] = before[9000] = bad;  // together above the range, if bad is not
      const DeviceArray<float> gradients(device, before);
      const GradientNormProblem problem{gradients.data(), table.data(), 3, flags.data(), 2, 1.0f, nullptr};
      gradient_norm(stream, problem, result.data());
      CHECK(result.host()[0].nonfinite == 1);
      clip_gradients(stream, problem, result.data(), gradients.data());
      CHECK(worst_error(gradients.doubles(), to_doubles(before), 0) == 0);
    }
  });
}

}  // namespace ringtape::test
