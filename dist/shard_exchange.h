#pragma once

#include <memory>

#include "dist/communicator.h"
#include "nn/arena.h"

namespace ringtape {

/// The collectives that a sharded arena needs (ZeRO; see docs/distributed.md), over `comm`. The arena must
/// outlive them. On CUDA no operation waits for the host.
///
/// A step's values are gathered bucket by bucket, the first layers' values first, while the next forward
/// computes (Megatron's --overlap-param-gather). The storages of a bucket have no data while it is on its
/// way: the first read of one of its parameters finds that, waits for the gather and puts the data of the
/// whole bucket back. Without `overlap` the step waits.
ShardExchange make_shard_exchange(const ParameterArena& arena, std::shared_ptr<Communicator> comm,
                                  bool overlap = true);

}  // namespace ringtape
