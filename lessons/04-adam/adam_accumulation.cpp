// Eight accumulation steps and one step of Adam: the growing norm of the gradient, and the update when the
// losses are not scaled.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kBatch = 512, kFeatures = 64, kHidden = 256, kClasses = 10;

/// A network and a batch of random samples, the same for the same seed.
struct Example {
  Tensor x, y;
  std::shared_ptr<Sequential> model;
  ParameterArena arena;

  Example()
      : x((manual_seed(0), randn({kBatch, kFeatures}))),
        y(labels()),
        model(make_mlp({kFeatures, kHidden, kClasses})),
        arena(*model, Device()) {}

  static Tensor labels() {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < kBatch; ++i) values.push_back(i * i % kClasses);
    return from_vector(values, {kBatch});
  }

  double norm() { return clip_grad_norm(arena, INFINITY).item(); }

  /// Adds the gradient of `steps` micro-batches. `scaled`: each adds its sum of losses over the batch's
  /// number of targets; otherwise its mean, as if it were the whole batch.
  void accumulate(std::int64_t steps, bool scaled, bool prints = false) {
    arena.zero_grad();
    AccumulationWindow window;
    window.begin(kBatch);
    for (const MicroBatch& piece : cut_into_micro_batches(kBatch, kBatch / steps)) {
      const Tensor features = x.alias({piece.size, kFeatures}, piece.first * kFeatures);
      const Tensor targets = y.alias({piece.size}, piece.first);
      const CrossEntropyOptions options = {.reduction = scaled ? Reduction::sum : Reduction::mean,
                                           .divisor = scaled ? window.divisor() : 1};
      cross_entropy((*model)(features), targets, options).backward();
      if (prints) fmt::print("  step {}: norm {:.4f}\n", piece.first / piece.size + 1, norm());
    }
  }
};

/// Norm of the weights' change by one step of the optimizer.
template <class AnyOptimizer>
double change_by(std::int64_t steps, bool scaled) {
  Example example;
  AnyOptimizer optimizer(example.arena, {.learning_rate = 0.01});
  const std::vector<double> before = example.arena.values().to_doubles();
  example.accumulate(steps, scaled);
  optimizer.step();
  const std::vector<double> after = example.arena.values().to_doubles();
  double squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i) squares += (after[i] - before[i]) * (after[i] - before[i]);
  return std::sqrt(squares);
}

/// Bytes of activations and their gradients at the peak of an update.
std::size_t activation_bytes(std::int64_t steps) {
  Example example;
  reset_peak_memory(Device());
  example.accumulate(steps, true);
  const BytesByCategory peak = memory_stats(Device()).peak_by_category;
  return peak[MemoryCategory::activations] + peak[MemoryCategory::activation_gradients];
}

void show() {
  Example example;
  fmt::print("A batch of {} in 8 micro-batches of {}: the norm of the gradient so far\n", kBatch, kBatch / 8);
  example.accumulate(8, true, true);
  fmt::print("total gradient norm before the step: {:.4f}\n", example.norm());
  example.accumulate(1, true);
  fmt::print("the batch at once:                   {:.4f}\n", example.norm());
  example.accumulate(8, false);
  fmt::print("8 means added up, not scaled:        {:.4f}\n\n", example.norm());

  fmt::print("Norm of the change of the weights   scaled   not scaled   ratio\n");
  const auto line = [](const char* name, double scaled, double unscaled) {
    fmt::print("  {:<32} {:>7.4f} {:>12.4f} {:>7.3f}\n", name, scaled, unscaled, unscaled / scaled);
  };
  line("SGD, learning rate 0.01", change_by<SGD>(8, true), change_by<SGD>(8, false));
  line("Adam, learning rate 0.01", change_by<Adam>(8, true), change_by<Adam>(8, false));

  fmt::print("\nActivations and their gradients at the peak\n");
  for (const std::int64_t steps : {1, 2, 4, 8}) {
    fmt::print("  {} x {:<4} {:>8} bytes\n", steps, kBatch / steps, activation_bytes(steps));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Gradient norms over eight accumulation steps, then a step of Adam.\nExample: adam_accumulation");
  return app.run(argc, argv, show);
}
