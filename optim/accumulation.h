#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ringtape {

/// A part of an update's samples: `size` samples, from index `first` on.
struct MicroBatch {
  std::int64_t first;
  std::int64_t size;
};

/// Divides one update's samples into micro-batches of at most `micro_batch`; the last may be smaller. Throws
/// Error for a negative number of samples or a micro_batch below 1.
std::vector<MicroBatch> cut_into_micro_batches(std::int64_t samples, std::int64_t micro_batch);

/// The arithmetic of gradient accumulation. The gradients of micro-batches of any sizes add up to the
/// gradient of one large batch if each micro-batch's *sum* of losses is divided by the number of non-ignored
/// targets in the whole window: all micro-batches of one update, on all ranks. (Dividing each micro-batch's
/// mean by the number of micro-batches instead is correct only if all have the same number of targets.)
///
/// With R data-parallel ranks (data x context ranks), whose gradients are averaged, the divisor is N / R for
/// a window of N targets.
class AccumulationWindow {
 public:
  /// Sums a count over all ranks; all ranks call it at the same time.
  using SumOverRanks = std::function<std::int64_t(std::int64_t)>;

  /// `world_size`: R. Throws Error for fewer than 1 rank, and for several without `sum_over_ranks`
  /// (sum_over() of dist/data_parallel.h makes one).
  explicit AccumulationWindow(std::int64_t world_size = 1, SumOverRanks sum_over_ranks = nullptr);

  /// Begins a window in which this rank has `own_targets` non-ignored targets. Call it before the window's
  /// first backward, which needs the divisor.
  void begin(std::int64_t own_targets);
  /// The same if the number of targets on all ranks is known: nothing is exchanged.
  void begin_with_all(std::int64_t targets);

  /// Non-ignored targets of the window, on all ranks. If it is 0, skip the update.
  std::int64_t targets() const { return targets_; }
  /// The number by which each micro-batch's sum of losses is divided; 1 for a window without targets, so that
  /// it adds 0 and not NaN.
  double divisor() const;

 private:
  std::int64_t world_size_;
  SumOverRanks sum_over_ranks_;
  std::int64_t targets_ = 0;
};

}  // namespace ringtape
