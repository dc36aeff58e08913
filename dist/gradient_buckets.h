#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "nn/arena.h"

namespace ringtape {

/// Divides the arena's gradients into buckets, in the order of the arena, which is about the order in which
/// backward completes them. A bucket ends with the parameter that fills it to its size, and at the end of
/// each of ParameterArena::runs(). A sharded arena has its buckets already; `sizes` are not used then. Throws
/// Error for sizes below 1.
std::vector<GradientBucket> make_gradient_buckets(const ParameterArena& arena, const BucketSizes& sizes);

/// The numbers of the buckets of a chunk.
std::vector<std::size_t> buckets_of_chunk(const ParameterArena& arena,
                                          const std::vector<GradientBucket>& buckets, int chunk);

/// Decides when each bucket of a round is reduced (Li et al., "PyTorch Distributed: Experiences on
/// accelerating data parallel training", 2020). A bucket is complete when its last gradient is, and is
/// launched once it is complete and all buckets before it are launched. So all ranks launch the same buckets
/// in the same order, even if their gradients become complete in different orders.
class GradientBuckets {
 public:
  /// `launch` is called with the number of a bucket, in ascending order in each round.
  GradientBuckets(const ParameterArena& arena, const BucketSizes& sizes,
                  std::function<void(std::size_t bucket)> launch);

  const std::vector<GradientBucket>& buckets() const { return buckets_; }
  /// The bucket of this entry of the arena.
  std::size_t bucket_of(std::size_t entry) const { return bucket_of_entry_[entry]; }

  /// Begins a round of a chunk's buckets. A bucket does not wait for parameters that have been frozen.
  void begin_round(int chunk);
  /// The gradient of this entry of the arena is complete; launches the buckets that can be launched.
  void complete(std::size_t entry);
  /// Launches the remaining buckets, and ends the round.
  void end_round();

 private:
  void launch_next();

  const ParameterArena& arena_;
  std::vector<GradientBucket> buckets_;
  std::vector<std::size_t> bucket_of_entry_;
  std::function<void(std::size_t)> launch_;
  std::vector<std::size_t> incomplete_;  // number of incomplete entries of each bucket
  std::vector<std::size_t> round_;       // the buckets of the current round
  std::size_t next_ = 0;                 // index in round_ of the next bucket to launch
};

}  // namespace ringtape
