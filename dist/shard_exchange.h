#pragma once

#include <memory>

#include "dist/communicator.h"
#include "nn/arena.h"

namespace ringtape {

/// The collectives over `comm` that a sharded arena needs (ZeRO; see docs/distributed.md). The arena must
/// outlive them. On CUDA the host does not wait.
///
/// A step's values are gathered bucket by bucket, the first layers' values first, while the next forward
/// computes (Megatron's --overlap-param-gather). While a bucket is in flight, its parameters' storages have
/// no data: the first read of one of them waits for the gather and puts the data of the whole bucket back.
/// Without `overlap` the step waits for all gathers.
ShardExchange make_shard_exchange(const ParameterArena& arena, std::shared_ptr<Communicator> comm,
                                  bool overlap = true);

}  // namespace ringtape
