#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/shard_layout.h"

namespace ringtape {

/// The elements of a parameter that are in a rank's slice: elements `first` to end - 1 of the arena, none if
/// `end` is not larger. In the rank's shard each element is `shift` elements further on.
struct ShardRange {
  std::int64_t first, end, shift;
};

/// The range of entry number `entry`, with `elements` elements from `offset` on, in an arena with these
/// buckets and slices.
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
