// Eight accumulation steps and one step of Adam: the growing norm of the gradient, and the update when the
// losses are not scaled.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kFeatures = 64, kHidden = 256, kClasses = 10;

struct Options {
  std::int64_t batch = 512, steps = 8;  ///< samples in the batch, and the micro-batches it is divided into
  double lr = 0.01, eps = 1e-8;
};

/// A network and a batch of random samples, the same for the same seed.
struct Example {
  std::int64_t batch;
  Tensor x, y;
  std::shared_ptr<Sequential> model;
  ParameterArena arena;

  explicit Example(std::int64_t samples)
      : batch(samples),
        x((manual_seed(0), randn({batch, kFeatures}))),
        y(labels(batch)),
        model(make_mlp({kFeatures, kHidden, kClasses})),
        arena(*model, Device()) {}

  static Tensor labels(std::int64_t count) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(i * i % kClasses);
    return from_vector(values, {count});
  }

  double norm() { return clip_grad_norm(arena, INFINITY).item(); }

  /// Adds the gradient of `steps` micro-batches. `scaled`: each adds its sum of losses over the batch's
  /// number of targets; otherwise its mean, as if it were the whole batch.
  void accumulate(std::int64_t steps, bool scaled, bool prints = false) {
    arena.zero_grad();
    AccumulationWindow window;
    window.begin(batch);
    for (const MicroBatch& piece : cut_into_micro_batches(batch, batch / steps)) {
      const Tensor features = x.alias({piece.size, kFeatures}, piece.first * kFeatures);
      const Tensor targets = y.alias({piece.size}, piece.first);
      const CrossEntropyOptions options = {.reduction = scaled ? Reduction::sum : Reduction::mean,
                                           .divisor = scaled ? window.divisor() : 1};
      cross_entropy((*model)(features), targets, options).backward();
      if (prints) fmt::print("  step {}: norm {:.4f}\n", piece.first / piece.size + 1, norm());
    }
  }
};

/// Norm of the weights' change in one step of the optimizer.
template <class AnyOptimizer, class ItsOptions>
double change_by(const Options& options, const ItsOptions& its_options, bool scaled) {
  Example example(options.batch);
  AnyOptimizer optimizer(example.arena, its_options);
  const std::vector<double> before = example.arena.values().to_doubles();
  example.accumulate(options.steps, scaled);
  optimizer.step();
  const std::vector<double> after = example.arena.values().to_doubles();
  double squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i) squares += (after[i] - before[i]) * (after[i] - before[i]);
  return std::sqrt(squares);
}

/// Bytes of activations and their gradients at the peak of an update.
std::size_t activation_bytes(std::int64_t batch, std::int64_t steps) {
  Example example(batch);
  reset_peak_memory(Device());
  example.accumulate(steps, true);
  const BytesByCategory peak = memory_stats(Device()).peak_by_category;
  return peak[MemoryCategory::activations] + peak[MemoryCategory::activation_gradients];
}

void show(const Options& options) {
  const auto [batch, steps, lr, eps] = options;
  Example example(batch);
  fmt::print("A batch of {} in {} micro-batches of {}: the norm of the gradient so far\n", batch, steps,
             batch / steps);
  example.accumulate(steps, true, true);
  fmt::print("total gradient norm before the step: {:.4f}\n", example.norm());
  example.accumulate(1, true);
  fmt::print("the batch at once:                   {:.4f}\n", example.norm());
  example.accumulate(steps, false);
  fmt::print("{} means added up, not scaled:        {:.4f}\n\n", steps, example.norm());

  fmt::print("Norm of the change of the weights   scaled   not scaled   ratio\n");
  const auto line = [](const std::string& name, double scaled, double unscaled) {
    fmt::print("  {:<32} {:>7.4f} {:>12.4f} {:>7.3f}\n", name, scaled, unscaled, unscaled / scaled);
  };
  const SGDOptions sgd = {.learning_rate = lr};
  const AdamOptions adam = {.learning_rate = lr, .eps = eps};
  line(fmt::format("SGD, learning rate {}", lr), change_by<SGD>(options, sgd, true),
       change_by<SGD>(options, sgd, false));
  line(fmt::format("Adam, learning rate {}", lr), change_by<Adam>(options, adam, true),
       change_by<Adam>(options, adam, false));

  fmt::print("\nActivations and their gradients at the peak\n");
  for (std::int64_t pieces = 1;; pieces = std::min(2 * pieces, steps)) {
    if (batch % pieces == 0) {
      fmt::print("  {} x {:<4} {:>8} bytes\n", pieces, batch / pieces, activation_bytes(batch, pieces));
    }
    if (pieces == steps) break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Gradient norms over the steps of an accumulation, then a step of Adam.\n"
      "Example: adam_accumulation --accumulation 32");
  app.option("--batch-size", between(options.batch, 1, 65536), "samples in the batch");
  app.option("--accumulation", between(options.steps, 1, 65536), "micro-batches that it is divided into");
  app.option("--lr", between(options.lr, 0, 1e6), "learning rate of both optimizers");
  app.option("--eps", between(options.eps, 1e-30, 1e6), "Adam's eps");
  return app.run(argc, argv, [&] {
    check(options.batch % options.steps == 0,
          "--batch-size must be a multiple of --accumulation, found {} and {}", options.batch, options.steps);
    show(options);
  });
}
