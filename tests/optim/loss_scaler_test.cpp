#include "optim/loss_scaler.h"

#include <cmath>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "kernels/loss_scale.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/kernel_test.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

TEST_CASE("the loss scale follows torch.amp.GradScaler's, step by step", "[scaler]") {
  const SafetensorsFile file(std::string(RINGTAPE_TEST_DATA) + "/loss_scale.safetensors");
  const std::vector<double> overflows = file.load("overflows").to_doubles();
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> scale(device, {65536.0f});
    const DeviceArray<std::int32_t> tracker(device, {0}), at_floor(device, {0});
    const LossScaleRule rule{
        .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 5, .floor = 0x1p-100f};
    std::vector<double> scales, trackers;
    for (const double overflow : overflows) {
      const DeviceArray<int> flag(device, {static_cast<int>(overflow)});
      update_loss_scale(stream, flag.data(), rule,
                        LossScaleState{scale.data(), tracker.data(), at_floor.data()});
      scales.push_back(scale.doubles()[0]);
      trackers.push_back(tracker.doubles()[0]);
    }
    CHECK(scales == file.load("scale").to_doubles());
    CHECK(trackers == file.load("growth_tracker").to_doubles());
  });
}

using Values = std::vector<double>;

/// y = w x, in f16, whose gradient is a number that a test chooses.
struct OneWeight : Module {
  OneWeight() : layer(register_module("layer", std::make_shared<Linear>(1, 1, false))) {
    layer->parameter("weight").copy_from(tensor_of({0.5}, {1, 1}));
  }
  Tensor forward(const Tensor& x) override { return (*layer)(x); }
  std::shared_ptr<Linear> layer;
};

/// One step with a loss whose gradient for the weight is `gradient`.
void train_step(OneWeight& model, Optimizer& optimizer, LossScaler& scaler, double gradient) {
  optimizer.zero_grad();
  const Tensor y = to(model(ones({1, 1}, DType::f16, optimizer.arena().device())), DType::f32);
  scaler.backward(sum(scale(y, gradient)));
  optimizer.step();
  scaler.update();
}

TEST_CASE("gradients too small for f16 reach the weights through the loss scale", "[scaler]") {
  on_every_device([](Device device, const Stream&) {
    for (const double initial : {65536.0, 1.0}) {
      OneWeight model;
      ParameterArena arena(model, device, DType::f16);
      SGD optimizer(arena, {.learning_rate = 1e6});
      LossScaler scaler(arena, {.initial_scale = initial});
      train_step(model, optimizer, scaler, 0x1p-26);  // the least f16 above 0 is 2^-24
      const double expected = initial == 1 ? 0.5 : 0.5 - 1e6 * 0x1p-26;
      CHECK(is_close(model.layer->parameter("weight").item(), expected, 1e-7));
    }
  });
}

TEST_CASE("an overflow leaves weights, copies, moments and step counts as they are, and is counted",
          "[scaler]") {
  on_every_device([](Device device, const Stream&) {
    OneWeight model;
    ParameterArena arena(model, device, DType::f16);
    AdamW optimizer(arena);
    LossScaler scaler(arena, {.initial_scale = 1024, .growth_interval = 3});
    const Tensor& weight = model.layer->parameter("weight");
    const auto everything = [&] {
      std::vector<Values> all = {weight.to_doubles(), arena.low_precision().to_doubles()};
      for (const NamedTensor& state : optimizer.state()) all.push_back(state.tensor.to_doubles());
      return all;
    };
    train_step(model, optimizer, scaler, 0.5);
    const auto before = everything();
    CHECK(weight.item() != 0.5);
    for (const double bad : {1000.0, static_cast<double>(INFINITY), std::nan("")}) {
      train_step(model, optimizer, scaler, bad);
      CHECK(everything() == before);
    }
    CHECK(scaler.scale().item() == 128);
    CHECK(optimizer.skipped_updates().item() == 3);
    for (int step = 0; step < 3; ++step) train_step(model, optimizer, scaler, 0.5);
    CHECK(everything() != before);
    CHECK(optimizer.skipped_updates().item() == 3);
    CHECK(scaler.scale().item() == 256);

    // Only the four steps that counted, at another scale (a power of 2), end with the same bits.
    OneWeight reference;
    ParameterArena reference_arena(reference, device, DType::f16);
    AdamW reference_optimizer(reference_arena);
    LossScaler constant(reference_arena, {.initial_scale = 64});
    for (int step = 0; step < 4; ++step) train_step(reference, reference_optimizer, constant, 0.5);
    CHECK(reference.layer->parameter("weight").item() == weight.item());
  });
}

TEST_CASE("training stops with an explanation when steps overflow at the loss scale's floor", "[scaler]") {
  OneWeight model;
  ParameterArena arena(model, Device{}, DType::f16);
  SGD optimizer(arena);
  LossScaler scaler(arena, {.initial_scale = 8, .floor = 2});
  const auto overflow = [&] { train_step(model, optimizer, scaler, INFINITY); };
  overflow();
  overflow();
  CHECK(scaler.scale().item() == 2);
  for (int step = 0; step < LossScaler::kOverflowsToGiveUp - 1; ++step) overflow();
  train_step(model, optimizer, scaler, 1);  // one good step: the count starts again
  for (int step = 0; step < LossScaler::kOverflowsToGiveUp - 1; ++step) {
    overflow();
    CHECK_NOTHROW(scaler.check_can_go_on());
  }
  overflow();
  CHECK(scaler.scale().item() == 2);
  CHECK_THROWS_WITH(
      scaler.check_can_go_on(),
      "f16 training stops: gradients overflowed in each of the last 5 steps although the loss "
      "scale is at its floor of 2; a smaller learning rate may help, and bf16 and f32 have more "
      "range");
}

TEST_CASE("a loss scaler goes on from its saved state", "[scaler]") {
  OneWeight model, resumed;
  ParameterArena arena(model, Device{}, DType::f16), resumed_arena(resumed, Device{}, DType::f16);
  SGD optimizer(arena), resumed_optimizer(resumed_arena);
  LossScaler first(arena, {.growth_interval = 3}), second(resumed_arena, {.growth_interval = 3});
  train_step(model, optimizer, first, INFINITY);
  train_step(model, optimizer, first, 0);
  const std::vector<NamedTensor> saved = first.state();
  std::vector<NamedTensor> loaded = second.state();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    CHECK(saved[i].name == loaded[i].name);
    loaded[i].tensor.copy_from(saved[i].tensor);
  }
  for (int step = 0; step < 2; ++step) train_step(resumed, resumed_optimizer, second, 0);
  CHECK(second.scale().item() == 65536);
}

TEST_CASE("each of several ranks begins backward with the scale divided by the number of ranks", "[scaler]") {
  on_every_device([](Device device, const Stream&) {
    OneWeight model;
    ParameterArena arena(model, device, DType::f16);
    SGD optimizer(arena, {.learning_rate = 1});
    LossScaler scaler(arena, {.initial_scale = 4096, .world_size = 4});
    optimizer.zero_grad();
    const auto backward = [&](double gradient) {
      const Tensor y = to(model(ones({1, 1}, DType::f16, device)), DType::f32);
      scaler.backward(sum(scale(y, gradient)));
    };
    backward(0.25);
    CHECK(arena.gradients().to_doubles()[0] == 256);
    optimizer.step();  // unscales by the same factor
    scaler.update();
    CHECK(model.layer->parameter("weight").item() == 0.25);
    // 60 * 1024 is below f16's largest value, 60 * 4096 is not.
    optimizer.zero_grad();
    backward(60);
    CHECK(arena.gradients().to_doubles()[0] == 60 * 1024);
    train_step(model, optimizer, scaler, INFINITY);
    CHECK(scaler.scale().item() == 2048);
    optimizer.zero_grad();
    backward(60);
    CHECK(arena.gradients().to_doubles()[0] == 60 * 512);
    // The same with a loaded scale.
    scaler.state()[0].tensor.copy_from(full({}, 64, DType::f32, device));
    scaler.loaded();
    optimizer.zero_grad();
    backward(60);
    CHECK(arena.gradients().to_doubles()[0] == 60 * 16);
  });
}

TEST_CASE("loss scalers refuse invalid settings", "[scaler]") {
  using Options = LossScalerOptions;
  OneWeight model;
  ParameterArena arena(model, Device{});
  // f32 has neither 1e39 nor 1e-46.
  for (const double bad : {0.0, -1.0, std::nan(""), static_cast<double>(INFINITY), 1e39, 1e-46}) {
    CHECK_THROWS_WITH(LossScaler(arena, Options{.initial_scale = bad}), ContainsSubstring("initial scale"));
    CHECK_THROWS_WITH(LossScaler(arena, Options{.growth_factor = bad}), ContainsSubstring("growth factor"));
    CHECK_THROWS_WITH(LossScaler(arena, Options{.backoff_factor = bad}), ContainsSubstring("backoff factor"));
    CHECK_THROWS_WITH(LossScaler(arena, Options{.floor = bad}), ContainsSubstring("the floor"));
  }
  // They round to 1, with which the scale would never change.
  CHECK_THROWS_WITH(LossScaler(arena, Options{.growth_factor = 1 + 1e-9}),
                    ContainsSubstring("growth factor"));
  CHECK_THROWS_WITH(LossScaler(arena, Options{.backoff_factor = 1 - 1e-9}),
                    ContainsSubstring("backoff factor"));
  CHECK_THROWS_WITH(LossScaler(arena, Options{.initial_scale = 1, .floor = 2}),
                    ContainsSubstring("found 1 and 2"));
  CHECK_THROWS_WITH(LossScaler(arena, Options{.growth_interval = 0}), ContainsSubstring("growth interval"));
  CHECK_THROWS_WITH(LossScaler(arena, Options{.world_size = 0}),
                    ContainsSubstring("at least one rank, found 0"));
}

}  // namespace
}  // namespace ringtape::test
