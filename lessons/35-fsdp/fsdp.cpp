// ZeRO 3, also called FSDP: when a layer's parameters are gathered and freed, and what that costs compared
// with stage 2.
//
//   mpirun -n 4 fsdp
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/memory.h"
#include "dist/data_parallel.h"
#include "dist/traffic.h"
#include "lessons/peaks.h"
#include "lessons/ranks.h"
#include "nn/layers.h"
#include "optim/adam.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;

constexpr std::int64_t kBatch = 16, kWatchedLayers = 4;

struct Options {
  std::int64_t layers = 16, width = 128, segment = 4;
  int micro_batches = 4;
};

/// How a training step is divided.
struct How {
  int stage;
  int micro_batches;
  std::int64_t segment;  ///< layers that are recomputed together; 0 for none
};

/// A layer with a ReLU. Calls `tell` when its forward begins, and when backward has its gradients.
class Watched : public Linear {
 public:
  Watched(std::int64_t width, const std::function<void(const char* direction)>& tell)
      : Linear(width, width), tell_(tell) {
    parameter("bias").autograd->post_accumulate_hooks.emplace_back([this] { tell_("backward"); });
  }
  Tensor forward(const Tensor& x) override {
    tell_("forward");
    return forward_relu(x);
  }

 private:
  std::function<void(const char* direction)> tell_;
};

std::uint64_t calls_of(const CollectiveCounts& counts, CommOperation operation) {
  return counts[static_cast<std::size_t>(operation)].calls;
}

std::size_t live_parameters() {
  return memory_stats(Device()).live_by_category[MemoryCategory::parameters];
}

/// Memory, collectives and traffic of a rank's third step.
struct Result {
  BytesByCategory held;
  CollectiveCounts called;
  double sent;  ///< in multiples of the model's size
  double loss;  ///< of the third step
};

/// Trains for three steps and counts the last. `tell` is called in it, by each layer.
Result train(const std::shared_ptr<Communicator>& comm, std::int64_t layers, std::int64_t width,
             const How& how, const std::function<void(const char*, std::int64_t layer)>& tell) {
  manual_seed(0);
  Sequential model;
  int step = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    model.push_back(std::make_shared<Watched>(width, [&, layer](const char* direction) {
      if (step == 2 && tell) tell(direction, layer);
    }));
  }
  model.set_recompute(how.segment);
  const BucketSizes sizes = {4 * width * width, 4 * width * width};  // a layer's weights each
  const ArenaSharding sharding = {
      .zero_stage = how.stage, .rank = comm->rank(), .world_size = comm->size(), .bucket_sizes = sizes};
  ParameterArena arena(model, Device(), DType::f32, sharding);
  AdamW optimizer(arena);
  DataParallel parallel(model, arena, comm);
  manual_seed(100 + static_cast<std::uint64_t>(comm->rank()));
  const Tensor x = randn({kBatch, width}), y = randn({kBatch, width}, DType::f32, {}, 1);
  const std::int64_t piece = kBatch / how.micro_batches;
  Result result{};
  for (; step < 3; ++step) {
    const CollectiveCounts before = comm->collectives();
    MemoryRecording memory{Device()};
    optimizer.zero_grad();
    result.loss = 0;
    for (int i = 0; i < how.micro_batches; ++i) {
      const auto scope = parallel.no_sync(i + 1 < how.micro_batches);
      const Tensor loss =
          mse_loss(model(x.alias({piece, width}, i * piece * width)),
                   y.alias({piece, width}, i * piece * width), Reduction::mean, how.micro_batches);
      loss.backward();
      result.loss += loss.item();
    }
    parallel.finish();
    optimizer.step();
    result.called = difference(before, comm->collectives());
    memory.stop();
    result.held = peak_of(memory);
  }
  result.sent = bytes_sent(result.called, comm->size()) / (4.0 * static_cast<double>(arena.size()));
  return result;
}

/// Shows, for each layer's turn in a step, the gathers started so far and the parameters in memory.
void show_turns(const std::shared_ptr<Communicator>& comm, std::int64_t width) {
  const std::size_t outside = live_parameters();
  const auto layer_bytes = static_cast<std::size_t>(4 * width * (width + 1));
  const std::size_t shard = layer_bytes * kWatchedLayers / static_cast<std::size_t>(comm->size());
  std::uint64_t before = 0;
  if (prints(*comm)) {
    fmt::print("A step of {} layers in stage 3, on rank 0\n", kWatchedLayers);
    fmt::print("                       gathers so far  KiB of parameters  layers beside the shard\n");
  }
  train(comm, kWatchedLayers, width, {3, 1, 0}, [&](const char* direction, std::int64_t layer) {
    const std::uint64_t gathers = calls_of(comm->collectives(), CommOperation::all_gather);
    if (before == 0) before = gathers - 2;  // the first layer's and its neighbour's
    const std::size_t live = live_parameters() - outside;
    const auto whole = static_cast<double>(live - shard) / static_cast<double>(layer_bytes);
    if (!prints(*comm)) return;
    fmt::print("  {:<8} of layer {}  {:>14}  {:>17}  {:>23}\n", direction, layer, gathers - before,
               live / 1024, std::lround(whole));
  });
}

void show_costs(const std::shared_ptr<Communicator>& comm, const Options& options) {
  if (prints(*comm)) {
    fmt::print("\n{} ranks, {} layers of {} x {}, AdamW; KiB on a rank, at the most; an update's calls\n",
               comm->size(), options.layers, options.width, options.width);
    fmt::print(
        "stage  micro-batches  recompute  parameters  gradients  state  gathers  reduce-scatters  sent\n");
  }
  double loss = 0;
  for (const How& how : {How{2, 1, 0}, How{3, 1, 0}, How{2, options.micro_batches, 0},
                         How{3, options.micro_batches, 0}, How{3, 1, options.segment}}) {
    const Result result = train(comm, options.layers, options.width, how, nullptr);
    if (loss == 0) loss = result.loss;
    check(std::abs(result.loss - loss) < 1e-5 * loss, "the losses {} and {} differ", loss, result.loss);
    const auto kib = [&](MemoryCategory category) { return result.held[category] / 1024; };
    if (!prints(*comm)) continue;
    fmt::print("{:>5}  {:>13}  {:>9}  {:>10}  {:>9}  {:>5}  {:>7}  {:>15}  {:.2f}\n", how.stage,
               how.micro_batches, how.segment, kib(MemoryCategory::parameters),
               kib(MemoryCategory::gradients), kib(MemoryCategory::optimizer_state),
               calls_of(result.called, CommOperation::all_gather),
               calls_of(result.called, CommOperation::reduce_scatter), result.sent);
  }
  if (prints(*comm)) fmt::print("the third update has the same loss in all rows, within 1e-5 of it\n");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("When ZeRO 3 gathers and frees parameters.\nExample: mpirun -n 4 fsdp");
  app.option("--layers", between(options.layers, 2, 1000), "layers of the table");
  app.option("--width", between(options.width, 1, 4096), "neurons in a layer");
  app.option("--accumulation", between(options.micro_batches, 1, kBatch), "micro-batches of rows 3 and 4");
  app.option("--recompute", between(options.segment, 1, 1000), "layers recomputed together in the last row");
  return app.run(argc, argv, [&] {
    check(kBatch % options.micro_batches == 0, "--accumulation must divide {} samples, found {}", kBatch,
          options.micro_batches);
    const auto comm = connect_ranks();
    if (!has_ranks(*comm, 2, "fsdp")) return;
    show_turns(comm, options.width);
    show_costs(comm, options);
  });
}
