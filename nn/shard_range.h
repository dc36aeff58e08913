#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/shard_layout.h"

namespace ringtape {

/// The elements of a parameter in a rank's slice: `first` to end - 1 of the arena, none if `end` is not
/// larger; in the rank's shard each is `shift` elements further on.
struct ShardRange {
  std::int64_t first, end, shift;
};

/// Of entry number `entry`, with `elements` from `offset` on, of an arena with these buckets.
inline ShardRange range_in_shard(const std::vector<GradientBucket>& buckets,
                                 const std::vector<ShardSlice>& slices, std::size_t entry,
                                 std::int64_t offset, std::int64_t elements) {
  std::size_t bucket = 0;
  while (entry >= buckets[bucket].first_entry + buckets[bucket].entries) ++bucket;
  const ShardSlice& own = slices[bucket];
  return {std::max(offset, own.offset), std::min(offset + elements, own.offset + own.elements),
          own.in_shard - own.offset};
}

}  // namespace ringtape
