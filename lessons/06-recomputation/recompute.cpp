// Recomputation and accumulation together: the activation memory that each saves, and the gradient that
// neither changes.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/accumulation.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kBatch = 512, kWidth = 128, kLayers = 16, kSegment = 4;

/// An MLP of 16 hidden layers that counts its layers' forwards.
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
};

Result update(std::int64_t steps, bool recomputes) {
  manual_seed(0);
  int forwards = 0;
  Sequential model;
  for (std::int64_t i = 0; i < kLayers; ++i) {
    model.push_back(std::make_shared<Linear>(kWidth, kWidth));
    model.push_back(std::make_shared<CountingRelu>(&forwards));
  }
  if (recomputes) model.set_recompute(2 * kSegment);
  ParameterArena arena(model, Device());
  const Tensor x = randn({kBatch, kWidth}), target = randn({kBatch, kWidth});

  reset_peak_memory(Device());
  arena.zero_grad();
  for (const MicroBatch& piece : cut_into_micro_batches(kBatch, kBatch / steps)) {
    const auto part = [&](const Tensor& all) {
      return all.alias({piece.size, kWidth}, piece.first * kWidth);
    };
    mse_loss(model(part(x)), part(target), Reduction::sum, kBatch).backward();
  }
  const BytesByCategory peak = memory_stats(Device()).peak_by_category;
  return {peak[MemoryCategory::activations], peak[MemoryCategory::activation_gradients], forwards,
          arena.gradients().to_doubles()};
}

void show() {
  fmt::print("{} hidden layers of {}, a batch of {}; a layer's result for the batch is {} KiB\n\n", kLayers,
             kWidth, kBatch, kBatch * kWidth * 4 / 1024);
  fmt::print("micro-batches  recompute  activations  their gradients  layers run  gradients\n");
  for (const std::int64_t steps : {1, 4}) {
    const Result kept = update(steps, false);
    for (const bool recomputes : {false, true}) {
      const Result result = recomputes ? update(steps, true) : kept;
      const auto kib = [](std::size_t bytes) { return fmt::format("{} KiB", bytes / 1024); };
      fmt::print("{:>13}  {:>9}  {:>11}  {:>15}  {:>10}  {}\n", fmt::format("{} x {}", steps, kBatch / steps),
                 recomputes ? fmt::format("by {}", kSegment) : "no", kib(result.activations),
                 kib(result.activation_gradients), result.forwards,
                 !recomputes                          ? ""
                 : result.gradients == kept.gradients ? "the same in every bit"
                                                      : "differ");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Activations with accumulation and recomputation.\nExample: recompute");
  return app.run(argc, argv, show);
}
