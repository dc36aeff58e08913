// Recomputation and accumulation together: the activation memory that each saves, and the gradient that
// neither changes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"

namespace {

using namespace ringtape;

struct Options {
  std::int64_t batch = 512, width = 128, layers = 16;
  std::int64_t segment = 4;       ///< layers that are recomputed together
  std::int64_t accumulation = 4;  ///< micro-batches in the lower half of the table
  int steps = 0;                  ///< optimizer steps to time; 0: none
};

/// A ReLU that counts its forwards, and so the layers that ran.
class CountingRelu : public Module {
 public:
  explicit CountingRelu(int* count) : count_(count) {}
  Tensor forward(const Tensor& x) override {
    ++*count_;
    return relu(x);
  }

 private:
  int* count_;
};

struct Result {
  std::size_t activations;
  std::size_t activation_gradients;
  int forwards;
  std::vector<double> gradients;
  double seconds;
};

Result update(const Options& options, std::int64_t micro_batches, bool recomputes) {
  const std::int64_t batch = options.batch, width = options.width;
  manual_seed(0);
  int forwards = 0;
  Sequential model;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    model.push_back(std::make_shared<Linear>(width, width));
    model.push_back(std::make_shared<CountingRelu>(&forwards));
  }
  if (recomputes) model.set_recompute(2 * options.segment);
  ParameterArena arena(model, Device());
  const Tensor x = randn({batch, width}), target = randn({batch, width});

  reset_peak_memory(Device());
  const auto start = std::chrono::steady_clock::now();
  arena.zero_grad();
  for (const MicroBatch& piece : cut_into_micro_batches(batch, batch / micro_batches)) {
    const auto part = [&](const Tensor& all) { return all.alias({piece.size, width}, piece.first * width); };
    mse_loss(model(part(x)), part(target), Reduction::sum, static_cast<double>(batch)).backward();
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const BytesByCategory peak = memory_stats(Device()).peak_by_category;
  return {peak[MemoryCategory::activations], peak[MemoryCategory::activation_gradients], forwards,
          arena.gradients().to_doubles(), time.count()};
}

void show(const Options& options) {
  fmt::print("{} hidden layers of {}, a batch of {}; a layer's result for the batch is {} KiB\n\n",
             options.layers, options.width, options.batch, options.batch * options.width * 4 / 1024);
  fmt::print("micro-batches  recompute  activations  their gradients  layers run  gradients\n");
  for (const std::int64_t micro_batches : {std::int64_t{1}, options.accumulation}) {
    const Result kept = update(options, micro_batches, false);
    for (const bool recomputes : {false, true}) {
      const Result result = recomputes ? update(options, micro_batches, true) : kept;
      const auto kib = [](std::size_t bytes) { return fmt::format("{} KiB", bytes / 1024); };
      fmt::print("{:>13}  {:>9}  {:>11}  {:>15}  {:>10}  {}\n",
                 fmt::format("{} x {}", micro_batches, options.batch / micro_batches),
                 recomputes ? fmt::format("by {}", options.segment) : "no", kib(result.activations),
                 kib(result.activation_gradients), result.forwards,
                 !recomputes                          ? ""
                 : result.gradients == kept.gradients ? "the same in every bit"
                                                      : "differ");
    }
  }
}

/// The fastest of some steps of each kind. They take turns, so that other work affects both.
void show_time(const Options& options) {
  double kept = 1e9, recomputed = 1e9;
  for (int i = 0; i < options.steps; ++i) {
    kept = std::min(kept, update(options, 1, false).seconds);
    recomputed = std::min(recomputed, update(options, 1, true).seconds);
  }
  fmt::print("\nan update takes {:.1f} ms, with recomputation {:.1f} ms: {:.2f} times as long\n", kept * 1e3,
             recomputed * 1e3, recomputed / kept);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Activations with accumulation and recomputation.\nExample: recompute --layers 36 --recompute 6");
  app.option("--layers", between(options.layers, 1, 1000), "hidden layers");
  app.option("--recompute", between(options.segment, 1, 1000), "layers in a segment");
  app.option("--width", between(options.width, 1, 4096), "neurons in a layer");
  app.option("--batch-size", between(options.batch, 1, 65536), "samples in an update");
  app.option("--accumulation", between(options.accumulation, 1, 65536),
             "micro-batches in the lower half of the table");
  app.option("--steps", between(options.steps, 0, 1000), "time this many optimizer steps; 0: none");
  return app.run(argc, argv, [&] {
    check(options.batch % options.accumulation == 0,
          "--batch-size must be a multiple of --accumulation, found {} and {}", options.batch,
          options.accumulation);
    show(options);
    if (options.steps > 0) show_time(options);
  });
}
