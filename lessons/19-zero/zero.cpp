// ZeRO: the memory and the traffic of a rank without sharding, with sharded optimizer state, and with sharded
// gradients too.
//
//   mpirun -n 4 zero
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "autograd/ops.h"
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

constexpr std::int64_t kBatch = 16;

struct Options {
  std::int64_t layers = 16, width = 128;
  int micro_batches = 4;  ///< in an update of the last column

  /// A bucket for each layer's weights.
  BucketSizes buckets() const { return {4 * width * width, 4 * width * width}; }
};

struct Result {
  BytesByCategory held;  ///< bytes on this rank, at the peak of each category
  double sent;           ///< bytes that a rank sends in an update, by formula, over the parameters' bytes
  std::vector<double> values;
};

/// The norm of (values - expected) over the norm of `expected`.
double relative_distance(const std::vector<double>& values, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(values[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(difference / norm);
}

/// Trains the layers for three updates.
Result train(const std::shared_ptr<Communicator>& comm, const Options& options, int stage,
             int micro_batches) {
  const std::int64_t width = options.width;
  MemoryRecording memory{Device()};
  manual_seed(0);
  const auto model = make_mlp(std::vector<std::int64_t>(static_cast<std::size_t>(options.layers) + 1, width));
  ParameterArena arena(*model, Device(), DType::f32,
                       {.zero_stage = stage,
                        .rank = comm->rank(),
                        .world_size = comm->size(),
                        .bucket_sizes = options.buckets()});
  AdamW optimizer(arena);
  DataParallel parallel(
      *model, arena, comm,
      {.bucket_sizes = options.buckets(), .overlap = true, .allow_unused = false, .hook = nullptr});
  manual_seed(100 + static_cast<std::uint64_t>(comm->rank()));
  const std::int64_t samples = micro_batches * kBatch;
  const Tensor x = randn({samples, width}), y = randn({samples, width}, DType::f32, {}, 1);
  double sent = 0;
  for (int step = 0; step < 3; ++step) {
    const CollectiveCounts before = comm->collectives();
    optimizer.zero_grad();
    for (int i = 0; i < micro_batches; ++i) {
      const auto scope = parallel.no_sync(i + 1 < micro_batches);
      const Tensor prediction = (*model)(x.alias({kBatch, width}, i * kBatch * width));
      const Tensor target = y.alias({kBatch, width}, i * kBatch * width);
      mse_loss(prediction, target, Reduction::mean, micro_batches).backward();
    }
    parallel.finish();
    optimizer.step();
    sent = bytes_sent(difference(before, comm->collectives()), comm->size());
  }
  memory.stop();
  std::vector<double> values;
  for (const ArenaEntry& entry : arena.entries()) {
    for (const double value : entry.tensor->to_doubles()) values.push_back(value);
  }
  return {peak_of(memory), sent / static_cast<double>(arena.values().bytes()), values};
}

void show(const std::shared_ptr<Communicator>& comm, const Options& options) {
  if (prints(*comm)) {
    fmt::print("{} ranks, {} layers of {} x {}, AdamW; KiB on a rank, at the most\n", comm->size(),
               options.layers, options.width, options.width);
    fmt::print(
        "stage  parameters  gradients  state  sent in an update, by formula, in multiples of the model's "
        "size\n");
    fmt::print("                                     1 micro-batch  {} micro-batches\n",
               options.micro_batches);
  }
  std::vector<double> one_in_stage_0, many_in_stage_0;
  for (int stage = 0; stage <= 2; ++stage) {
    const Result one = train(comm, options, stage, 1),
                 many = train(comm, options, stage, options.micro_batches);
    if (stage == 0) {
      one_in_stage_0 = one.values;
      many_in_stage_0 = many.values;
    }
    const double off = std::max(relative_distance(one.values, one_in_stage_0),
                                relative_distance(many.values, many_in_stage_0));
    check(off < 1e-5, "stage {}: the weights are off by {:.1e}", stage, off);
    const auto kib = [&](MemoryCategory category) { return one.held[category] / 1024; };
    if (!prints(*comm)) continue;
    fmt::print("{:>5}  {:>10}  {:>9}  {:>5}  {:>13.2f}  {:>15.2f}\n", stage, kib(MemoryCategory::parameters),
               kib(MemoryCategory::gradients), kib(MemoryCategory::optimizer_state), one.sent, many.sent);
  }
  if (prints(*comm))
    fmt::print(
        "after three updates the weights of all stages are the same, within 1e-5 of their norm,\n"
        "with 1 micro-batch and with {}\n",
        options.micro_batches);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("The memory that ZeRO saves, and its traffic.\nExample: mpirun -n 4 zero");
  app.option("--layers", between(options.layers, 1, 1000), "layers");
  app.option("--width", between(options.width, 1, 4096), "neurons in a layer");
  app.option("--accumulation", between(options.micro_batches, 1, 1000), "micro-batches of the last column");
  return app.run(argc, argv, [&] {
    const auto comm = connect_ranks();
    if (has_ranks(*comm, 2, "zero")) show(comm, options);
  });
}
