#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/arena.h"

namespace ringtape {

/// The parameters that this rank has used in the current window of DataParallel.
class UsedParameters {
 public:
  explicit UsedParameters(const ParameterArena& arena);

  /// Backward has computed the gradient of this entry of the arena.
  void add(std::size_t entry) { is_used_[entry] = 1; }
  /// Call it before a bucket is reduced: adds its entries that have a gradient. The other entries may have a
  /// gradient from other ranks afterwards, and are not added by later calls in the window.
  void add_bucket(const GradientBucket& bucket);
  /// The same, and writes zeros to the arena for gradients that this rank lacks, as their memory is stale.
  void add_bucket_and_fill(const GradientBucket& bucket);

  /// A flag for each entry: 1 where this rank computed a gradient, else 0. Begins the next window.
  std::vector<std::int32_t> take();

 private:
  const ParameterArena& arena_;
  std::vector<std::int32_t> is_used_;
  std::vector<std::uint8_t> was_absent_;  // when its bucket was reduced: its gradient is from other ranks
};

}  // namespace ringtape
