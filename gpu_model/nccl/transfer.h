#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu_model/nccl/call.h"

/// Messages between two ranks: a head, which names the operation, and the bytes.
namespace gpu_model::nccl {

class CommRank;

struct Transfer {
  int peer;
  bool is_send;
  char* data;  ///< a send only reads it
  std::size_t bytes;

  std::size_t head_done = 0, done = 0;
  std::uint64_t end = 0;  ///< of a send: the place of its end in the channel, once it is written
};

/// The operation of transfers: a collective with its number, or ncclSend and ncclRecv (each message has its
/// own shape).
struct MessageHead {
  std::uint64_t number;
  Shape shape;
};

/// Advances the transfers without blocking, a channel's transfers in their order. `heads` has the head that
/// each transfer sends or expects. With `until_read`, a message counts as sent when the peer has read it.
/// Returns a bit for each rank that the remaining transfers wait for; 0 when all are complete. An unexpected
/// head is reported and ends the communicator.
std::uint64_t move_transfers(CommRank& comm, std::vector<Transfer>& transfers,
                             const std::vector<MessageHead>& heads, bool until_read);

}  // namespace gpu_model::nccl
