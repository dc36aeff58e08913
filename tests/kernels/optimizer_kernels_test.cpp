#include "core/ceil_div.h"
#include "kernels/adam.h"
#include "kernels/sgd.h"
#include "tests/support/kernel_test.h"

namespace ringtape::test {
namespace {

/// Three parameters: 5 elements, two tiles, and one that is absent in every third step.
constexpr std::int64_t kLengths[] = {5, kTileElements + 40, 33};
constexpr int kParameters = 3;
constexpr float kPadding = 77;

struct Arena {
  std::vector<Tile> tiles;
  std::vector<ParameterOptions> options = {{1.0f, 0.1f, 1}, {0.5f, 0.0f, 0}, {2.0f, 0.03f, 1}};
  std::int64_t length = 0;

  Arena() {
    for (int p = 0; p < kParameters; ++p) {
      for (std::int64_t first = 0; first < kLengths[p]; first += kTileElements) {
        tiles.push_back(
            {length + first,
             static_cast<std::int32_t>(std::min<std::int64_t>(kTileElements, kLengths[p] - first)), p});
      }
      length += round_up(kLengths[p], kTileAlignment);
    }
  }

  /// Calls body(i, p) for element i of the arena, which belongs to parameter p.
  template <class Body>
  void for_each(const Body& body) const {
    for (const Tile& tile : tiles) {
      for (std::int64_t i = tile.offset; i < tile.offset + tile.length; ++i) {
        body(static_cast<std::size_t>(i), static_cast<std::size_t>(tile.parameter));
      }
    }
  }

  std::vector<float> random(std::uint64_t seed) const {
    const std::vector<float> values = random_values<float>(length, seed);
    std::vector<float> padded(values.size(), kPadding);
    for_each([&](std::size_t i, std::size_t) { padded[i] = values[i]; });
    return padded;
  }
};

std::vector<std::uint8_t> has_grad_in_step(int step) {
  return {1, 1, static_cast<std::uint8_t>(step % 3 == 1 ? 0 : 1)};
}

constexpr int kSteps = 7;
constexpr double kClip = 0.625;

/// Runs kSteps steps: make_step(arena view) launches one, update(w, g, i, p, weight decay, learning rate)
/// does the same in double for one element. The values must agree; padding and absent parameters must not
/// change.
template <class MakeStep, class Update>
void compare_steps(Device device, bool clip, const MakeStep& make_step, const Update& update) {
  const Arena arena;
  std::vector<double> expected = to_doubles(arena.random(1));
  const DeviceArray<float> values(device, arena.random(1)), clip_factor(device, {static_cast<float>(kClip)});
  const DeviceArray<Tile> tiles(device, arena.tiles);
  const DeviceArray<ParameterOptions> options(device, arena.options);
  for (int step = 0; step < kSteps; ++step) {
    const float learning_rate = 0.01f / static_cast<float>(step + 1);
    const DeviceArray<float> rate(device, {learning_rate});
    const std::vector<float> gradients = arena.random(static_cast<std::uint64_t>(10 + step));
    const DeviceArray<float> device_gradients(device, gradients);
    const std::vector<std::uint8_t> has_grad = has_grad_in_step(step);
    const DeviceArray<std::uint8_t> flags(device, has_grad);
    ArenaView view{};
    view.values = values.data();
    view.gradients = device_gradients.data();
    view.tiles = tiles.data();
    view.tile_count = static_cast<std::int64_t>(arena.tiles.size());
    view.parameter_count = kParameters;
    view.options = options.data();
    view.has_grad = flags.data();
    view.learning_rate = rate.data();
    view.clip_factor = clip ? clip_factor.data() : nullptr;
    make_step(view);
    Stream::current(device).synchronize();
    arena.for_each([&](std::size_t i, std::size_t p) {
      if (has_grad[p] == 0) return;
      const double gradient = gradients[i] * (clip ? kClip : 1);
      update(expected[i], gradient, i, p, arena.options[p].weight_decay,
             learning_rate * arena.options[p].lr_scale);
    });
  }
  // A step rounds w once, and the change of w in several operations. The changes of all steps add up to less
  // than 0.2: with |gradient| <= 2 Nesterov's are the largest, 0.18. 17 roundings of 0.2 are 2e-7.
  CHECK(worst_error(values.doubles(), expected, (kSteps + 1) * rounding<float>(), 2e-7) <= 1);
}

}  // namespace

TEST_CASE("Adam and AdamW follow the published update", "[optimizer]") {
  for (const bool decoupled : {false, true}) {
    for (const bool clip : {false, true}) {
      INFO("decoupled " << decoupled << ", clip " << clip);
      on_every_device([&](Device device, const Stream& stream) {
        const double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
        const Arena arena;
        const auto length = static_cast<std::size_t>(arena.length);
        const DeviceArray<float> first(device, arena.length), second(device, arena.length);
        const DeviceArray<std::int64_t> steps(device, kParameters);
        const DeviceArray<AdamCoefficients> coefficients(device, kParameters);
        std::vector<double> m(length), v(length), t(length);
        compare_steps(
            device, clip,
            [&](const ArenaView& view) {
              adam_step(stream, AdamStep{view, first.data(), second.data(), steps.data(), coefficients.data(),
                                         beta1, beta2, eps, decoupled});
            },
            [&](double& w, double g, std::size_t i, std::size_t, double decay, double rate) {
              t[i] += 1;
              if (decoupled) {
                w -= rate * decay * w;
              } else {
                g += decay * w;
              }
              m[i] = beta1 * m[i] + (1 - beta1) * g;
              v[i] = beta2 * v[i] + (1 - beta2) * g * g;
              const double debiased = m[i] / (1 - std::pow(beta1, t[i]));
              w -= rate * debiased / (std::sqrt(v[i] / (1 - std::pow(beta2, t[i]))) + eps);
            });
        CHECK(steps.host() == std::vector<std::int64_t>{7, 7, 5});
        CHECK(worst_error(first.doubles(), m, 1e-6, 1e-6) <= 1);
        CHECK(worst_error(second.doubles(), v, 1e-6, 1e-9) <= 1);
      });
    }
  }
}

TEST_CASE("SGD with momentum, dampening, Nesterov and decay follows PyTorch's update", "[optimizer]") {
  struct Setting {
    double momentum, dampening;
    bool nesterov;
  };
  for (const Setting& s :
       {Setting{0, 0, false}, Setting{0.9, 0, false}, Setting{0.9, 0.3, false}, Setting{0.8, 0, true}}) {
    for (const bool clip : {false, true}) {
      INFO("momentum " << s.momentum << ", dampening " << s.dampening << ", nesterov " << s.nesterov
                       << ", clip " << clip);
      on_every_device([&](Device device, const Stream& stream) {
        const Arena arena;
        const auto length = static_cast<std::size_t>(arena.length);
        const DeviceArray<float> buffer(device, arena.length);
        const DeviceArray<std::int64_t> steps(device, kParameters);
        const DeviceArray<SgdCoefficients> coefficients(device, kParameters);
        std::vector<double> b(length);
        std::vector<bool> begun(length);
        compare_steps(
            device, clip,
            [&](const ArenaView& view) {
              sgd_step(stream, SgdStep{view, s.momentum == 0 ? nullptr : buffer.data(), steps.data(),
                                       coefficients.data(), s.momentum, s.dampening, s.nesterov});
            },
            [&](double& w, double g, std::size_t i, std::size_t, double decay, double rate) {
              g += decay * w;
              if (s.momentum != 0) {
                b[i] = begun[i] ? s.momentum * b[i] + (1 - s.dampening) * g : g;
                begun[i] = true;
                g = s.nesterov ? g + s.momentum * b[i] : b[i];
              }
              w -= rate * g;
            });
        CHECK(steps.host() == std::vector<std::int64_t>{7, 7, 5});
        CHECK(worst_error(buffer.doubles(), b, 1e-6, 4e-6) <= 1);
      });
    }
  }
}

}  // namespace ringtape::test
