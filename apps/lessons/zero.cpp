// ZeRO: what a rank holds and what it sends, with everything on each rank, the optimizer's state shared out,
// and the gradients too.
//
//   mpirun -n 4 zero
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "apps/lessons/ranks.h"
#include "apps/options.h"
#include "autograd/ops.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/spans.h"
#include "dist/data_parallel.h"
#include "nn/layers.h"
#include "optim/adam.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;

constexpr std::int64_t kWidth = 128, kBatch = 16;
constexpr BucketSizes kBuckets = {64 * 1024, 64 * 1024};  // a layer each

struct Result {
  BytesByCategory held;  ///< by this rank, at the most
  double sent;           ///< by each rank in an update, over the bytes of the parameters
  std::vector<double> values;
};

/// The most bytes of each category at a time.
BytesByCategory most_of(const MemoryRecording& recording) {
  BytesByCategory now = recording.start(), most = now;
  for (const MemoryEvent& event : recording.events()) {
    now[event.category] += static_cast<std::size_t>(event.bytes);
    most[event.category] = std::max(most[event.category], now[event.category]);
  }
  return most;
}

/// Bytes that ranks send for what was recorded, by the best algorithms: 2 (n - 1) / n of an all_reduce, (n -
/// 1) / n of a reduce_scatter and an all_gather.
double bytes_sent(const SpanRecording& recording, int ranks) {
  double bytes = 0;
  for (const Span& span : recording.spans()) {
    if (span.track != Track::communication) continue;
    const int times = span.name.starts_with("all_reduce") ? 2 : 1;
    bytes += times * (ranks - 1.0) / ranks * static_cast<double>(span.arguments.front().value);
  }
  return bytes;
}

/// Trains 16 layers of 64 KiB for three updates.
Result train(const std::shared_ptr<Communicator>& ranks, int stage, int micro_batches) {
  MemoryRecording memory{Device()};
  manual_seed(0);
  const auto model = make_mlp(std::vector<std::int64_t>(17, kWidth));
  ParameterArena arena(
      *model, Device(), DType::f32,
      {.stage = stage, .rank = ranks->rank(), .ranks = ranks->size(), .bucket_sizes = kBuckets});
  AdamW optimizer(arena);
  DataParallel parallel(*model, arena, ranks,
                        {.bucket_sizes = kBuckets, .overlap = true, .allow_unused = false, .hook = nullptr});
  manual_seed(100 + static_cast<std::uint64_t>(ranks->rank()));
  const Tensor x = randn({kBatch, kWidth}), y = randn({kBatch, kWidth}, DType::f32, {}, 1);
  double sent = 0;
  for (int step = 0; step < 3; ++step) {
    SpanRecording spans;
    optimizer.zero_grad();
    for (int i = 0; i < micro_batches; ++i) {
      const auto scope = parallel.no_sync(i + 1 < micro_batches);
      mse_loss((*model)(x), y, Reduction::mean, micro_batches).backward();
    }
    parallel.finish();
    optimizer.step();
    spans.stop();
    sent = bytes_sent(spans, ranks->size());
  }
  memory.stop();
  std::vector<double> values;
  for (const ArenaEntry& entry : arena.entries()) {
    for (const double value : entry.tensor->to_doubles()) values.push_back(value);
  }
  return {most_of(memory), sent / static_cast<double>(arena.values().bytes()), values};
}

void show(const std::shared_ptr<Communicator>& ranks) {
  if (prints(*ranks)) {
    fmt::print("{} ranks, 16 layers of {} x {}, AdamW; KiB on a rank, at the most\n", ranks->size(), kWidth,
               kWidth);
    fmt::print("stage  parameters  gradients  state  sent in an update, in sizes of the model\n");
    fmt::print("                                     1 micro-batch  4 micro-batches\n");
  }
  std::vector<double> expected;
  for (int stage = 0; stage <= 2; ++stage) {
    const Result one = train(ranks, stage, 1), four = train(ranks, stage, 4);
    if (stage == 0) expected = one.values;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(one.values[i] - expected[i], 2);
      norm += std::pow(expected[i], 2);
    }
    const double off = std::sqrt(difference / norm);
    check(off < 1e-5, "stage {}: the weights are off by {:.1e}", stage, off);
    const auto kib = [&](MemoryCategory category) { return one.held[category] / 1024; };
    if (!prints(*ranks)) continue;
    fmt::print("{:>5}  {:>10}  {:>9}  {:>5}  {:>13.2f}  {:>15.2f}\n", stage, kib(MemoryCategory::parameters),
               kib(MemoryCategory::gradients), kib(MemoryCategory::optimizer_state), one.sent, four.sent);
  }
  if (prints(*ranks))
    fmt::print("after three updates the weights of all stages are the same, within 1e-5 of their norm\n");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What ZeRO shares out, and what it costs.\nExample: mpirun -n 4 zero");
  return ringtape::apps::run(app, argc, argv, [] {
    const auto ranks = connect_ranks();
    if (has_ranks(*ranks, 2, "zero")) show(ranks);
  });
}
