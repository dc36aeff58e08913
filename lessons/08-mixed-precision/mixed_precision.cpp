// The limits of 16-bit numbers, and how a loss scale preserves small gradients in f16.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;

struct Options {
  double loss = 1e-7;       ///< roughly the loss whose gradients f16 may lose
  double scale = 65536;     ///< initial factor of the loss
  int growth_interval = 3;  ///< updates without overflow before the scale is doubled
};

double rounded(double value, DType dtype) {
  return to(full({1}, value), dtype).to_doubles()[0];
}

void show_numbers() {
  fmt::print("{:<22} {:>12} {:>12}\n", "", "f16", "bf16");
  const auto line = [](const std::string& text, double f16, double bf16) {
    fmt::print("{:<22} {:>12.6g} {:>12.6g}\n", text, f16, bf16);
  };
  for (const double value : {1e-8, 1e-7, 0.1, 70000.0}) {
    line(fmt::format("{:g} becomes", value), rounded(value, DType::f16), rounded(value, DType::bf16));
  }
  // A sum that is rounded after each addition.
  const auto count = [](DType dtype) {
    double sum = 0;
    for (int i = 0; i < 5000; ++i) sum = rounded(sum + 1, dtype);
    return sum;
  };
  line("1 added 5000 times", count(DType::f16), count(DType::bf16));
}

/// A model that computes in the dtype `compute`, with inputs and targets.
struct Example {
  std::shared_ptr<Sequential> model;
  ParameterArena arena;
  Tensor x, target;

  explicit Example(DType compute)
      : model((manual_seed(0), make_mlp({32, 64, 1}))),
        arena(*model, Device(), compute),
        x(to(randn({128, 32}), compute)),
        target(to(randn({128, 1}, DType::f32, {}, 1), compute)) {}

  /// The loss times `share`: a small `share` makes it as small as late in training.
  Tensor loss(double share) { return mse_loss((*model)(x), target, Reduction::mean, 1 / share); }
};

void show_gradient(const Options& options) {
  fmt::print("\n{:<36}  norm   parameters with a gradient of 0\n",
             fmt::format("A loss of {:g} and its gradient", options.loss));
  const auto line = [&](const std::string& name, DType compute, double scale) {
    Example example(compute);
    const LossScaler scaler(example.arena, {.initial_scale = scale});
    scaler.backward(example.loss(options.loss));
    const double norm = clip_grad_norm(example.arena, INFINITY).item();
    int zeros = 0;
    for (const ArenaEntry& entry : example.arena.entries()) {
      for (const double value : entry.tensor->grad().to_doubles()) zeros += value == 0;
    }
    fmt::print("{:<32} {:>10.3g} {:>10} of {}\n", name, norm, zeros, example.arena.parameter_elements());
  };
  line("f32", DType::f32, 1);
  line("bf16, no scale", DType::bf16, 1);
  line("f16, no scale", DType::f16, 1);
  line(fmt::format("f16, loss times {}", options.scale), DType::f16, options.scale);
}

void show_scale(const Options& options) {
  Example example(DType::f16);
  SGD optimizer(example.arena, {.learning_rate = 0.01});
  LossScaler scaler(example.arena,
                    {.initial_scale = options.scale, .growth_interval = options.growth_interval});
  fmt::print("\nstep  loss x      scale  gradient norm  update\n");
  double skipped = 0;
  for (int step = 1; step <= 8; ++step) {
    const double share = step == 4 ? 1e4 : 1;
    const double scale = scaler.scale().item();
    optimizer.zero_grad();
    scaler.backward(example.loss(share));
    const double norm = clip_grad_norm(example.arena, INFINITY).item();
    optimizer.step();
    scaler.update();
    const bool is_skipped = std::exchange(skipped, optimizer.skipped_updates().item()) != skipped;
    fmt::print("{:>4}  {:>6}  {:>9}  {:>13}  {}\n", step, share, scale,
               std::isfinite(norm) ? fmt::format("{:.3f}", norm) : "not finite",
               is_skipped ? "skipped" : "made");
  }
  fmt::print("      then    {:>9}\n", scaler.scale().item());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Numbers and gradients in 16 bits, with a loss scale and without.\n"
      "Example: mixed_precision --loss 1e-10");
  app.option("--loss", between(options.loss, 1e-30, 1e30),
             "roughly the loss whose zero gradients are counted");
  app.option("--scale", between(options.scale, 1, 1e30), "factor of the loss at the beginning");
  app.option("--growth-interval", between(options.growth_interval, 1, 1000),
             "updates without overflow before the factor is doubled");
  return app.run(argc, argv, [&] {
    show_numbers();
    show_gradient(options);
    show_scale(options);
  });
}
