#pragma once

#include <memory>
#include <vector>

#include "dist/comm_hook.h"
#include "dist/communicator.h"
#include "nn/arena.h"

/// What DataParallel does for a sharded arena (ZeRO: Rajbhandari et al., "ZeRO: Memory optimizations toward
/// training trillion parameter models", 2020); bucket_buffers.h has the gradients of stage 2.
namespace ringtape {

/// What the arena needs of the ranks. The arena has to outlive it. On CUDA nothing waits for the host.
ShardExchange make_shard_exchange(const ParameterArena& arena, std::shared_ptr<Communicator> ranks);

/// Stage 1: averages this rank's slice of a bucket, in place, by a reduce-scatter. The other slices are stale
/// afterwards. A bucket's elements have to be a multiple of the number of ranks.
class ReduceScatterHook : public CommHook {
 public:
  void launch(Communicator& ranks, const Tensor& bucket) override;
  void wait(Communicator& ranks) override;
  void reopen(Communicator& ranks, const Tensor& bucket) override;

 private:
  std::vector<Work> works_;
};

}  // namespace ringtape
