#pragma once

#include <memory>

#include "dist/communicator.h"
#include "nn/arena.h"

namespace ringtape {

/// The collectives that a sharded arena needs (ZeRO; see docs/distributed.md), over `comm`. The arena must
/// outlive them. On CUDA no operation waits for the host.
ShardExchange make_shard_exchange(const ParameterArena& arena, std::shared_ptr<Communicator> comm);

}  // namespace ringtape
