#include "nn/shard_layout.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "core/error.h"
#include "kernels/arena.h"

namespace ringtape {
namespace {

std::int64_t padded(std::int64_t elements, int world_size) {
  return round_up(elements, world_size * kTileAlignment);
}

/// One bucket for each run.
std::vector<GradientBucket> buckets_of_runs(std::span<const std::int64_t> sizes,
                                            std::span<const std::size_t> runs, int world_size) {
  std::vector<GradientBucket> buckets;
  std::size_t first = 0;
  std::int64_t offset = 0;
  for (const std::size_t count : runs) {
    std::int64_t elements = 0;
    for (const std::int64_t size : sizes.subspan(first, count)) elements += size;
    buckets.push_back({first, count, offset, padded(elements, world_size)});
    offset += buckets.back().elements;
    first += count;
  }
  return buckets;
}

}  // namespace

BucketSizes buckets_of_mib(double mib) {
  const auto bytes = static_cast<std::int64_t>(std::max(1.0, mib * (1 << 20)));
  return {.first_bytes = std::min(bytes, BucketSizes().first_bytes), .bytes = bytes};
}

std::vector<GradientBucket> cut_into_buckets(std::span<const std::int64_t> sizes,
                                             const BucketSizes& bucket_sizes, int world_size,
                                             std::span<const std::size_t> runs) {
  check(bucket_sizes.first_bytes > 0 && bucket_sizes.bytes > 0,
        "gradient buckets: sizes of {} and {} bytes, expected at least 1", bucket_sizes.first_bytes,
        bucket_sizes.bytes);
  check(world_size > 0, "gradient buckets: {} ranks, expected at least 1", world_size);
  std::vector<GradientBucket> buckets;
  std::int64_t offset = 0;
  bool is_full = true;
  std::size_t run = 0, end_of_run = runs.empty() ? sizes.size() : runs[0];
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i == end_of_run) end_of_run += runs[++run];
    if (is_full) buckets.push_back({i, 0, offset, 0});
    GradientBucket& bucket = buckets.back();
    ++bucket.entries;
    bucket.elements += sizes[i];
    const std::int64_t limit = buckets.size() == 1 ? bucket_sizes.first_bytes : bucket_sizes.bytes;
    is_full = bucket.elements * static_cast<std::int64_t>(sizeof(float)) >= limit || i + 1 == end_of_run;
    if (!is_full) continue;
    bucket.elements = padded(bucket.elements, world_size);
    offset += bucket.elements;
  }
  return buckets;
}

ArenaLayout arena_layout(std::span<const std::int64_t> sizes, std::span<const std::size_t> runs, int stage,
                         int world_size, const BucketSizes& bucket_sizes) {
  const int ranks = stage > 0 ? world_size : 1;
  std::vector<std::int64_t> aligned;
  for (const std::int64_t size : sizes) aligned.push_back(padded(size, 1));
  ArenaLayout layout;
  layout.buckets = stage == 3 ? buckets_of_runs(aligned, runs, ranks)
                              : cut_into_buckets(aligned, bucket_sizes, ranks, runs);
  for (const GradientBucket& bucket : layout.buckets) layout.elements += bucket.elements;
  layout.shard = layout.elements / ranks;
  return layout;
}

std::vector<ShardSlice> slices_of_rank(std::span<const GradientBucket> buckets, int rank, int world_size) {
  check(rank >= 0 && rank < world_size, "shard of rank {}: expected 0 to {}", rank, world_size - 1);
  std::vector<ShardSlice> slices;
  std::int64_t in_shard = 0;
  for (const GradientBucket& bucket : buckets) {
    check(bucket.elements % (world_size * kTileAlignment) == 0,
          "shard of rank {}: a bucket of {} elements, expected a multiple of {} ranks x {}", rank,
          bucket.elements, world_size, kTileAlignment);
    const std::int64_t elements = bucket.elements / world_size;
    slices.push_back({bucket.offset + rank * elements, in_shard, elements});
    in_shard += elements;
  }
  return slices;
}

std::int64_t max_of_neighbours(std::span<const GradientBucket> buckets) {
  std::int64_t most = 0, previous = 0;
  for (const GradientBucket& bucket : buckets) {
    most = std::max(most, previous + bucket.elements);
    previous = bucket.elements;
  }
  return most;
}

}  // namespace ringtape
