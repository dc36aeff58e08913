#include "data/regression.h"

#include <array>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/memory.h"
#include "core/philox.h"

namespace ringtape {
namespace {

constexpr std::int64_t kFeatures = 10;
constexpr std::uint64_t kTableStream = std::uint64_t{1} << 62;

using RandomWords = std::array<std::uint32_t, 16>;

RandomWords random_words(std::uint64_t seed, std::uint64_t row) {
  RandomWords words;
  for (std::uint64_t k = 0; k < 4; ++k) {
    const on_cpu::Philox4 four = on_cpu::philox4x32_10(seed, 4 * row + k, kTableStream);
    words[4 * k] = four.x;
    words[4 * k + 1] = four.y;
    words[4 * k + 2] = four.z;
    words[4 * k + 3] = four.w;
  }
  return words;
}

double standard_normal(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2 * std::log((a + 1.0) * 0x1p-32));
  return radius * std::cos(2 * std::numbers::pi * b * 0x1p-32);
}

double friedman1(const float* x) {
  const double centred = x[2] - 0.5;
  return 10 * std::sin(std::numbers::pi * x[0] * x[1]) + 20 * centred * centred + 10.0 * x[3] + 5.0 * x[4];
}

}  // namespace

TensorDataset make_friedman1(std::int64_t samples, std::uint64_t seed, double noise) {
  check(samples > 0, "make_friedman1: {} samples, expected at least 1", samples);
  check(std::isfinite(noise) && noise >= 0, "make_friedman1: noise {}, expected 0 or more", noise);
  const MemoryScope scope(MemoryCategory::data);
  Tensor features = empty({samples, kFeatures});
  Tensor targets = empty({samples, 1});
  float* x = features.data<float>();
  float* y = targets.data<float>();
  for (std::int64_t row = 0; row < samples; ++row, x += kFeatures) {
    const RandomWords words = random_words(seed, static_cast<std::uint64_t>(row));
    for (std::int64_t i = 0; i < kFeatures; ++i) x[i] = on_cpu::uniform_float(words[i]);
    y[row] = static_cast<float>(friedman1(x) + noise * standard_normal(words[12], words[13]));
  }
  return {std::move(features), std::move(targets)};
}

}  // namespace ringtape
