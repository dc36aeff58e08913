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

struct DataParallelOptions {
  /// Of an arena without sharding; a sharded arena has its own.
  BucketSizes bucket_sizes;
  /// False: buckets are reduced after backward, to see the effect of overlap.
  bool overlap = true;
  /// A parameter that took no part in a window on any rank is left out of the step instead of an error.
  bool allow_unused = false;
  /// How a bucket is averaged; null: by an all-reduce, or in stage 1 of ZeRO by a reduce-scatter.
  std::shared_ptr<CommHook> hook;
};

/// Data-parallel training (Li et al., "PyTorch Distributed: Experiences on accelerating data parallel
/// training", 2020): each rank has the whole model and computes gradients on its own samples; their mean over
/// the ranks takes the place of each rank's own. Buckets of gradients are reduced in place in the arena while
/// backward still computes others. How that is done, in steps from naive to ZeRO, stands in the files that
/// gradient_reducer.h lists; this class connects one of them to the tape and keeps account of windows.
///
///   for (std::size_t i = 0; i < micro_batches; ++i) {
///     const auto scope = data_parallel.no_sync(i + 1 < micro_batches);
///     ...
///     loss.backward();       // the last one reduces the accumulated gradients
///   }
///   data_parallel.finish();  // once a window; then clip, step, zero_grad
///
/// A window is all micro-batches of one update (optim/accumulation.h), from one finish() to the next: its end
/// is what other frameworks call the gradient accumulation boundary.
///
/// Every backward outside of no_sync() reduces all buckets once. The mean of equal values is that value, so
/// leaving no_sync() out costs time and changes nothing but rounding.
///
/// Between two finish() calls, all ranks run the same number of backwards outside of no_sync(), in the same
/// order among other collectives; a rank without samples may also run none where the others run one, and its
/// gradient counts as 0. A parameter that took no part on some ranks counts as 0 there, and has a gradient on
/// all ranks afterwards.
///
/// Losses have to be scaled so that the mean of the ranks' gradients is the right gradient: see
/// AccumulationWindow.
///
/// With a sharded arena (ZeRO, see docs/distributed.md) the loop is the same. Afterwards a rank has the mean
/// gradients of its slices alone. In stage 2 every backward reduces, whatever no_sync() says; ranks may run
/// different numbers of them; and a parameter's grad() is undefined.
///
/// It has to be destroyed before the model and the arena, and before another of the same arena is made. All
/// ranks have to give the same options.
class DataParallel {
 public:
  /// Verifies that the ranks have the same model, and gives all ranks the parameters of rank 0, frozen ones
  /// too. Throws Error where models differ (verify_parameters.h), the arena has a DataParallel already, is on
  /// another device than the communicator or sharded over others than its ranks, or a bucket size is below 1;
  /// in stage 2 of ZeRO for a hook and without overlap, for which there is no memory.
  DataParallel(Module& model, ParameterArena& arena, std::shared_ptr<Communicator> comm,
               DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// While it exists, gradients are accumulated on each rank and not reduced.
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

  /// Ends a window: afterwards the arena holds the mean over the ranks of the accumulated gradients, and a
  /// parameter has a gradient where it took part on any rank. Reduces only gradients that no backward has
  /// reduced yet. The ranks then tell each other which parameters took part; with several ranks on CUDA the
  /// host waits for that.
  ///
  /// Throws Error, on every rank the same, where a parameter took no part on any rank (unless allow_unused),
  /// and where a backward that reduces ended with an exception on any rank: its gradients are not complete.
  /// (One that ended before its first gradient was complete is as if it had not run.)
  /// After either, zero_grad() begins the next window as usual. Throws Error inside of no_sync().
  void finish();

  const std::vector<GradientBucket>& buckets() const { return reducer_->buckets(); }
  /// In stage 2 of ZeRO: how many buckets had a buffer at a time, at most; 2 where gradients become complete
  /// in the order of the arena. 0 otherwise.
  std::size_t most_bucket_buffers() const { return reducer_->most_bucket_buffers(); }

 private:
  void check_arena_is_free() const;
  void check_sharding() const;
  void add_hooks();
  bool reduces() const { return synchronizes_ || reducer_->reduces_every_backward(); }
  void before_gradient(std::size_t entry);
  void after_gradient(std::size_t entry);
  void check_no_backward_failed() const;
  void begin_round();
  void end_round();
  void sync_unused_parameters(bool failed);

  ParameterArena& arena_;
  std::shared_ptr<Communicator> comm_;
  DataParallelOptions options_;
  UsedParameters used_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::list<std::function<void()>>::iterator> hooks_;  // of each entry
  bool synchronizes_ = true;

  bool round_is_open_ = false;
  std::weak_ptr<int> running_backward_;  // the one that began the round; null once it has ended
  bool is_reduced_ = false;              // no gradient has changed since the last round
};

/// Adds up a count over the ranks, for AccumulationWindow. On CUDA the host waits for it.
std::function<std::int64_t(std::int64_t)> sum_over(std::shared_ptr<Communicator> comm);

}  // namespace ringtape
