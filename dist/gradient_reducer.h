#pragma once

#include <cstddef>
#include <vector>

#include "nn/arena.h"

namespace ringtape {

/// A way to average gradients over the ranks. DataParallel selects one of five, and calls it from the
/// parameters' hooks:
///
///   naive_reducer   all-reduces after backward
///   bucket_reducer  all-reduces each bucket as soon as it is complete, while backward continues
///   zero1_reducer   reduce-scatters instead: each rank gets only its slices (ZeRO stage 1)
///   zero2_reducer   the same, without memory for all gradients (ZeRO stage 2)
///   zero3_reducer   the same, without memory for all values (ZeRO stage 3)
///
/// A round averages all buckets of a chunk once. A pipeline's stage may have several chunks (nn/stages.h),
/// each with its own backward; otherwise there is one chunk, number 0, with all buckets. All ranks run the
/// same rounds.
class GradientReducer {
 public:
  GradientReducer() = default;
  virtual ~GradientReducer() = default;
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// In the order of their reduction.
  virtual const std::vector<GradientBucket>& buckets() const = 0;
  /// True if every backward is a round, inside no_sync() too.
  virtual bool reduces_every_backward() const { return false; }

  /// True: all ranks will run the same number of rounds, so no rank has to announce one to the others
  /// (DataParallel::promise_equal_ranks()).
  virtual void promise_equal_rounds(bool /*equal*/) {}

  /// A backward is about to write the gradient of this entry of the arena, for the first time.
  virtual void before_gradient(std::size_t /*entry*/) {}
  /// A round of this chunk begins.
  virtual void begin_round(int /*chunk*/) {}
  /// In a round: the gradient of this entry is complete.
  virtual void after_gradient(std::size_t /*entry*/) {}
  /// Ends the round: returns when all buckets are averaged; on CUDA makes the current stream wait for them.
  virtual void end_round() = 0;
  /// Ends a window; called for each chunk, the last first. `is_reduced`: none of the chunk's gradients has
  /// changed since its last round on this rank.
  virtual void finish(int chunk, bool is_reduced) {
    if (is_reduced) return;
    begin_round(chunk);
    end_round();
  }

  /// In ZeRO stages 2 and 3: the largest number of buckets with a buffer at a time; otherwise 0.
  virtual std::size_t max_bucket_buffers() const { return 0; }
};

}  // namespace ringtape
