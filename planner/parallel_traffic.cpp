#include "planner/parallel_traffic.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "dist/pipeline_schedule.h"
#include "kernels/arena.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

void add(CollectiveCounts& counts, CommOperation operation, std::int64_t calls, std::int64_t bytes_of_each) {
  CollectiveCount& count = counts[static_cast<std::size_t>(operation)];
  count.calls += static_cast<std::uint64_t>(calls);
  count.bytes += static_cast<std::uint64_t>(product(calls, bytes_of_each));
}

/// The sizes of one rank's update.
struct Sizes {
  explicit Sizes(const ParallelUpdate& update)
      : gpt(update.gpt),
        stage(gpt.sharding.world_size > 1 ? gpt.sharding.zero_stage : 0),
        first(gpt.part.stage == 0),
        last(gpt.part.stage + 1 == gpt.part.stages),
        micro_batches(update.micro_batches),
        tokens(gpt.sequences * (gpt.tokens == 0 ? gpt.model.context : gpt.tokens) / gpt.part.context),
        blocks(blocks_of_stages(gpt.model, gpt.part.stages,
                                gpt.part.chunks)[static_cast<std::size_t>(gpt.part.stage)]),
        recomputed(recomputed_blocks(gpt)),
        value_bytes(static_cast<std::int64_t>(size_of(gpt.compute))),
        stream_bytes(tokens * gpt.model.width * value_bytes),
        parameters(arena_order(parameters_of(gpt.model, gpt.part), stage)),
        layout(gpt_layout(parameters, gpt.sharding)) {}

  const GptMemoryProblem& gpt;
  int stage;
  bool first, last;
  std::int64_t micro_batches, tokens, blocks, recomputed;
  std::int64_t value_bytes, stream_bytes;
  std::vector<GptParameter> parameters;  // in the order of the arena
  ArenaLayout layout;
};

/// The gradients that sequence parallelism sums: those of parameters that all tensor ranks have, as far as
/// this rank keeps them (ParameterArena::sum_parts_of_gradients()).
void add_sums_of_parts(const Sizes& s, CollectiveCounts& counts) {
  const int ranks = s.stage > 0 ? s.gpt.sharding.world_size : 1, rank = s.stage > 0 ? s.gpt.sharding.rank : 0;
  const std::vector<ShardSlice> slices = slices_of_rank(s.layout.buckets, rank, ranks);
  for (std::size_t b = 0; b < slices.size(); ++b) {
    const GradientBucket& bucket = s.layout.buckets[b];
    std::int64_t offset = bucket.offset;
    for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
      const std::int64_t begin = std::max(offset, slices[b].offset);
      const std::int64_t end =
          std::min(offset + s.parameters[i].elements, slices[b].offset + slices[b].elements);
      offset += round_up(s.parameters[i].room, kTileAlignment);
      if (s.parameters[i].is_part || begin >= end) continue;
      add(counts, CommOperation::all_reduce, 1, 4 * (end - begin));
    }
  }
}

CollectiveCounts tensor_traffic(const Sizes& s) {
  CollectiveCounts counts{};
  if (s.gpt.part.tensor == 1) return counts;
  const std::int64_t k = s.micro_batches;
  // Borders out of the divided layers reduce in forward, borders into them in backward.
  const std::int64_t into_block = s.gpt.model.mlp == MlpKind::swiglu ? 3 : 2;
  const std::int64_t out = 2 * s.blocks + (s.first ? 1 : 0), out_again = 2 * s.recomputed;
  const std::int64_t into = into_block * s.blocks + (s.last ? 1 : 0), into_again = into_block * s.recomputed;
  if (s.gpt.part.sequence) {
    // Each border reduces in one direction and gathers in the other.
    add(counts, CommOperation::reduce_scatter, k * (out + out_again + into), s.stream_bytes);
    add(counts, CommOperation::all_gather, k * (into + into_again + out), s.stream_bytes);
    add_sums_of_parts(s, counts);
  } else {
    add(counts, CommOperation::all_reduce, k * (out + out_again + into), s.stream_bytes);
  }
  if (s.last) add(counts, CommOperation::all_gather, k, 4 * 3 * s.tokens * s.gpt.part.tensor);
  return counts;
}

/// How often an update gathers the bucket that begins with parameter `first`.
std::int64_t gathers_of(const Sizes& s, const GptParameter& first) {
  const bool is_freed = s.gpt.sharding.reshard_after_forward;
  if (s.stage < 3) return 1;
  if (first.block >= 0 || s.last) return (is_freed ? 2 : 1) * s.micro_batches;
  // The backward of embeddings reads no values: without resharding they stay from a forward to the next
  // backward.
  if (is_freed) return s.micro_batches;
  const GptPart& part = s.gpt.part;
  const auto kind = part.chunks > 1 ? PipelineScheduleKind::interleaved : PipelineScheduleKind::one_f_one_b;
  std::int64_t gathers = 0;
  bool is_there = false;
  for (const StageTask& task :
       stage_schedule(kind, {part.stages, static_cast<int>(s.micro_batches), part.chunks}, part.stage)) {
    if (task.chunk != first.chunk) continue;
    if (!task.is_backward && !is_there) ++gathers;
    is_there = !task.is_backward;
  }
  return gathers;
}

CollectiveCounts data_traffic(const Sizes& s, const ParallelUpdate& update) {
  CollectiveCounts counts{};
  if (s.gpt.sharding.world_size == 1) return counts;
  const std::int64_t reductions = s.stage >= 2 || update.every_micro_batch ? s.micro_batches : 1;
  for (const GradientBucket& bucket : s.layout.buckets) {
    const std::int64_t gradients = 4 * bucket.elements, values = s.value_bytes * bucket.elements;
    if (s.stage == 0) {
      const auto bytes = static_cast<std::int64_t>(size_of(update.compress.value_or(DType::f32)));
      add(counts, CommOperation::all_reduce, reductions, bytes * bucket.elements);
      if (update.compress == DType::f16)
        add(counts, CommOperation::all_reduce, reductions, 4);  // the largest element
    } else {
      add(counts, CommOperation::reduce_scatter, reductions, gradients);
      add(counts, CommOperation::all_gather, gathers_of(s, s.parameters[bucket.first_entry]), values);
    }
  }
  add(counts, CommOperation::all_reduce, 1, 4 * (std::ssize(s.parameters) + 1));
  add(counts, CommOperation::all_reduce, 1, 4);
  return counts;
}

CollectiveCounts context_traffic(const Sizes& s) {
  CollectiveCounts counts{};
  const std::int64_t ranks = s.gpt.part.context, k = s.micro_batches;
  if (ranks == 1) return counts;
  const std::int64_t columns = s.gpt.model.kv_heads_or_default() * s.gpt.model.head_size();
  const std::int64_t shard = 2 * s.tokens * columns / s.gpt.part.tensor * s.value_bytes;
  add(counts, CommOperation::exchange,
      k * ((s.blocks + s.recomputed) * (ranks - 1) + s.blocks * (2 * ranks - 1)), shard);
  return counts;
}

CollectiveCounts pipeline_traffic(const Sizes& s) {
  CollectiveCounts counts{};
  if (s.gpt.part.stages == 1) return counts;
  const std::int64_t bytes = s.stream_bytes / (s.gpt.part.sequence ? s.gpt.part.tensor : 1);
  const std::int64_t chunks = s.gpt.part.chunks;
  const std::int64_t forward = chunks - (s.last ? 1 : 0), backward = chunks - (s.first ? 1 : 0);
  add(counts, CommOperation::exchange, s.micro_batches * (forward + backward), bytes);
  for (const GradientBucket& bucket : s.layout.buckets) {
    const GptParameter& first = s.parameters[bucket.first_entry];
    if (!first.is_copied) continue;
    const std::int64_t own = s.stage == 0 ? first.elements : bucket.elements / s.gpt.sharding.world_size;
    add(counts, CommOperation::all_reduce, 1, 4 * own);
  }
  add(counts, CommOperation::all_reduce, 1, 4);  // the loss
  return counts;
}

}  // namespace

ParallelTraffic update_traffic(const ParallelUpdate& update) {
  const Sizes sizes(update);
  return {.data = data_traffic(sizes, update),
          .tensor = tensor_traffic(sizes),
          .context = context_traffic(sizes),
          .pipeline = pipeline_traffic(sizes)};
}

}  // namespace ringtape::planner
