#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// How the arena is divided into buckets, and the buckets into slices that ranks own (ZeRO: Rajbhandari et
/// al., "ZeRO: Memory optimizations toward training trillion parameter models", 2020).
namespace ringtape {

/// The largest sizes of the buckets of gradients.
struct BucketSizes {
  /// The size of the first bucket: small, so that communication begins early in backward.
  std::int64_t first_bytes = std::int64_t{1} << 20;
  /// The size of all other buckets: large, so that the cost of a call is negligible.
  std::int64_t bytes = std::int64_t{25} << 20;
};

/// Buckets of `mib` MiB, but at least 1 byte; the first has at most 1 MiB.
BucketSizes buckets_of_mib(double mib);

/// Neighbouring entries of the arena whose gradients are reduced together.
struct GradientBucket {
  std::size_t first_entry;  ///< of the arena's entries
  std::size_t entries;
  std::int64_t offset;  ///< in elements: the bucket's range of the gradients
  std::int64_t elements;
};

/// The part of a bucket that a rank owns.
struct ShardSlice {
  std::int64_t offset;    ///< in elements, in the arena
  std::int64_t in_shard;  ///< its offset in the rank's concatenated slices
  std::int64_t elements;
};

/// Divides a list of entries into buckets. `sizes` are the elements of each entry, multiples of
/// kTileAlignment. A bucket ends with the entry that fills it, and is padded to a multiple of `world_size`
/// times kTileAlignment elements, 256 bytes for each rank. `runs`: lengths of groups of neighbouring entries;
/// no bucket has entries of two groups. Empty: one group. Throws Error for bucket sizes or a number of ranks
/// below 1.
std::vector<GradientBucket> cut_into_buckets(std::span<const std::int64_t> sizes,
                                             const BucketSizes& bucket_sizes, int world_size = 1,
                                             std::span<const std::size_t> runs = {});

/// Slice `rank` of every bucket: the rank's shard. The slices of a bucket are equally long, begin at
/// multiples of kTileAlignment, and together make up the bucket. Throws Error for buckets that cannot be
/// divided in this way, and for a rank outside 0 to world_size - 1.
std::vector<ShardSlice> slices_of_rank(std::span<const GradientBucket> buckets, int rank, int world_size);

/// The buckets of an arena, as ParameterArena and DataParallel cut them.
struct ArenaLayout {
  std::vector<GradientBucket> buckets;  ///< in ZeRO stage 3: units
  std::int64_t elements = 0;            ///< of all buckets, with padding
  std::int64_t shard = 0;               ///< of one rank's slices; without sharding all
};
/// The layout of trained parameters of `sizes` elements each, in the order of the arena. `runs`: as for
/// cut_into_buckets(); in stage 3 the number of parameters of each unit. Throws Error as cut_into_buckets()
/// does.
ArenaLayout arena_layout(std::span<const std::int64_t> sizes, std::span<const std::size_t> runs, int stage,
                         int world_size, const BucketSizes& bucket_sizes);

/// Elements of the two neighbouring buckets that are largest together; of a single bucket, its own.
std::int64_t max_of_neighbours(std::span<const GradientBucket> buckets);

}  // namespace ringtape
