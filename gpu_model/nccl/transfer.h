#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu_model/nccl/call.h"

/// Messages between two ranks: a head, which says what it belongs to, and the bytes.
namespace gpu_model::nccl {

class Communicator;

struct Transfer {
  int peer;
  bool is_send;
  char* data;  ///< only read by one that sends
  std::size_t bytes;

  std::size_t head_done = 0, done = 0;
  std::uint64_t end = 0;  ///< of one that sends: where in the channel it ends, when all of it is written
};

/// What transfers are for: a collective with its number, or ncclSend and ncclRecv (each message has its own
/// shape).
struct MessageHead {
  std::uint64_t number;
  Shape shape;
};

/// Moves as many bytes of the transfers as can go, those of a channel in their order. `heads` has the head
/// that each transfer sends or expects. With `until_read`, a message is sent when the peer has read it. The
/// ranks that what is left waits for, a bit each; 0 when all is done. A head that is not the expected one is
/// reported and ends the communicator.
std::uint64_t move_transfers(Communicator& comm, std::vector<Transfer>& transfers,
                             const std::vector<MessageHead>& heads, bool until_read);

}  // namespace gpu_model::nccl
