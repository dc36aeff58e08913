#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "dist/comm_hook.h"
#include "dist/communicator.h"
#include "dist/gradient_reducer.h"
#include "dist/used_parameters.h"
#include "nn/arena.h"
#include "nn/module.h"

namespace ringtape {

/// How DataParallel reduces gradients; ZeRO's stage is the arena's (ArenaSharding).
struct DataParallelOptions {
  /// For an arena without sharding; a sharded arena has its own sizes.
  BucketSizes bucket_sizes;
  /// False: buckets are reduced after backward, and in ZeRO stage 1 a step waits for the new values, to
  /// measure the effect of overlap.
  bool overlap = true;
  /// True: the step skips a parameter that no rank used in a window. False: such a parameter is an error.
  bool allow_unused = false;
  /// How a bucket is averaged; null: by an all-reduce, or in ZeRO stage 1 by a reduce-scatter.
  std::shared_ptr<CommHook> hook;
};

/// Data-parallel training (Li et al., "PyTorch Distributed: Experiences on accelerating data parallel
/// training", 2020): each rank has the whole model and computes gradients on its own samples; the mean over
/// the ranks replaces each rank's gradients. Buckets of gradients are reduced in place in the arena while
/// backward computes others. gradient_reducer.h lists the files that do this, in steps from naive to ZeRO;
/// this class connects one of them to the tape and tracks windows.
///
///   for (std::size_t i = 0; i < micro_batches; ++i) {
///     const auto scope = data_parallel.no_sync(i + 1 < micro_batches);
///     ...
///     loss.backward();       // the last one reduces the accumulated gradients
///   }
///   data_parallel.finish();  // once a window; then clip, step, zero_grad
///
/// A window is all micro-batches of one update (optim/accumulation.h), from one finish() to the next.
/// DeepSpeed calls its end the gradient accumulation boundary.
///
/// Every backward outside no_sync() reduces all buckets once; in a pipeline's stage, the buckets of the
/// backward's chunk. The mean of equal values is that value, so without no_sync() an update takes more time
/// and differs only by rounding.
///
/// Between two finish() calls, all ranks run the same number of backwards outside no_sync(), in the same
/// order relative to other collectives. If that number is 1, a rank without samples may leave the backward
/// out: its finish() takes part in the reduction, and the gradients that it lacks count as 0. A parameter
/// that some ranks did not use counts as 0 there, and has a gradient on all ranks afterwards.
///
/// Losses must be scaled so that the mean of the ranks' gradients is the gradient of the global batch: see
/// AccumulationWindow.
///
/// With a sharded arena (ZeRO, see docs/distributed.md) the loop is the same. Afterwards a rank has only the
/// mean gradients of its slices. In stage 2 every backward reduces, inside no_sync() too; ranks may run
/// different numbers of backwards; and a parameter's grad() is undefined. In stage 3 the values are sharded
/// too: all ranks run the same forwards and backwards, training or not, and a parameter is in memory only
/// during them.
///
/// A DataParallel must be destroyed before the model and the arena, and before another one of the same arena
/// is made. All ranks must use the same options.
class DataParallel {
 public:
  /// Verifies that the ranks have the same model, and broadcasts the parameters of rank 0, including frozen
  /// ones. Throws Error for a null communicator, if models differ (verify_parameters.h), if the arena has a
  /// DataParallel already, is on another device than the communicator or sharded for other ranks, and for a
  /// bucket size below 1; in ZeRO stages 2 and 3 also for a hook, and without overlap, which would need
  /// memory for all gradients.
  DataParallel(Module& model, ParameterArena& arena, std::shared_ptr<Communicator> comm,
               DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// During its lifetime gradients are accumulated on each rank and not reduced.
  class [[nodiscard]] NoSync {
   public:
    NoSync(bool& synchronizes, bool active) : synchronizes_(synchronizes), previous_(synchronizes) {
      if (active) synchronizes_ = false;
    }
    ~NoSync() { synchronizes_ = previous_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    bool& synchronizes_;
    bool previous_;
  };
  /// With `active` false it has no effect: `no_sync(i + 1 < micro_batches)`.
  NoSync no_sync(bool active = true) { return {synchronizes_, active}; }

  /// With true, the program promises from here on that all ranks run the same number of backwards in every
  /// window, and that the run ends if a backward throws on any rank. All ranks must promise the same, and may
  /// take the promise back between two windows, such as before the short last batch of an epoch. In finish()
  /// a rank that used all parameters then needs nothing from the others, so the host does not wait.
  void promise_equal_ranks(bool equal) { reducer_->promise_equal_rounds(equal_ranks_ = equal); }

  /// Ends a window: afterwards the arena holds the mean over the ranks of the accumulated gradients, and a
  /// parameter has a gradient if any rank used it. Reduces only gradients that no backward has reduced yet.
  /// The ranks then exchange which parameters they used; with several ranks on CUDA the host waits for that,
  /// except after promise_equal_ranks(true) on a rank that used all of them.
  ///
  /// Throws the same Error on every rank if no rank used a parameter (unless allow_unused), and if a backward
  /// that reduces ended with an exception on any rank: its gradients are not complete. (A backward that ended
  /// before its first gradient was complete counts as not run. After promise_equal_ranks(true) only the rank
  /// that failed is sure to throw.) After either error, zero_grad() begins the next window as usual. Throws
  /// Error inside no_sync().
  void finish();

  const std::vector<GradientBucket>& buckets() const { return reducer_->buckets(); }
  /// In ZeRO stages 2 and 3: the largest number of buckets with a buffer at a time. If gradients become
  /// complete in the order of the arena, it is 2, and one more for each bucket of tied weights and each unit
  /// of the whole model (BucketBuffers). In stages 0 and 1: 0.
  std::size_t max_bucket_buffers() const { return reducer_->max_bucket_buffers(); }

 private:
  void check_arena_is_free() const;
  void check_sharding() const;
  void add_hooks();
  bool reduces() const { return synchronizes_ || reducer_->reduces_every_backward(); }
  void before_gradient(std::size_t entry);
  void after_gradient(std::size_t entry);
  void check_no_backward_failed() const;
  void begin_round(int chunk);
  void end_round();
  void sync_unused_parameters(bool failed);
  bool used_all(const std::vector<std::int32_t>& is_used) const;

  ParameterArena& arena_;
  std::shared_ptr<Communicator> comm_;
  DataParallelOptions options_;
  UsedParameters used_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::list<std::function<void()>>::iterator> hooks_;  // one for each entry
  bool synchronizes_ = true;
  bool equal_ranks_ = false;

  bool round_is_open_ = false;
  std::size_t chunk_ = 0;                 // of the current round
  std::weak_ptr<int> running_backward_;   // the backward that began the round; null once it has ended
  std::vector<std::uint8_t> is_reduced_;  // of each chunk: no gradient has changed since its last round
};

/// sum_over_ranks() of a count, for AccumulationWindow.
std::function<std::int64_t(std::int64_t)> sum_over(std::shared_ptr<Communicator> comm);

}  // namespace ringtape
