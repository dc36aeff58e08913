#include "gpu_model/nccl/transfer.h"

#include <cstring>
#include <string>

#include "gpu_model/nccl/comm_rank.h"
#include "gpu_model/nccl/host_threads.h"
#include "gpu_model/runtime/engine.h"
#include "gpu_model/runtime/memory_space.h"

namespace gpu_model::nccl {
namespace {

bool is_written(const Transfer& transfer) {
  return transfer.head_done == sizeof(MessageHead) && transfer.done == transfer.bytes;
}

/// True if bytes were sent.
bool send_some(const CommRank& comm, Transfer& transfer, const MessageHead& head) {
  const Segment& segment = comm.segment();
  std::size_t moved = 0;
  if (transfer.head_done < sizeof head) {
    const char* const from = reinterpret_cast<const char*>(&head) + transfer.head_done;
    moved += segment.write(comm.rank(), transfer.peer, from, sizeof head - transfer.head_done);
    transfer.head_done += moved;
  }
  if (transfer.head_done == sizeof head && transfer.done < transfer.bytes) {
    open_device_memory();
    const std::size_t bytes = segment.write(comm.rank(), transfer.peer, transfer.data + transfer.done,
                                            transfer.bytes - transfer.done);
    transfer.done += bytes;
    moved += bytes;
  }
  if (is_written(transfer)) transfer.end = segment.channel(comm.rank(), transfer.peer).written;
  return moved > 0;
}

/// Whether the received message is the expected one.
bool matches(const MessageHead& came, const MessageHead& expected) {
  if (expected.shape.function != Function::receive)
    return came.number == expected.number && came.shape == expected.shape;
  return came.shape.function == Function::send && came.number == expected.number &&
         came.shape.type == expected.shape.type && came.shape.count == expected.shape.count;
}

void report_mismatch(const CommRank& comm, int peer, const MessageHead& came, const MessageHead& expected) {
  const std::string text = "ranks differ: rank " + std::to_string(comm.rank()) + " is in " +
                           describe(expected.shape) + " (number " + std::to_string(expected.number) +
                           "), rank " + std::to_string(peer) + " in " + describe(came.shape) + " (number " +
                           std::to_string(came.number) + ")";
  if (comm.segment().fail(ncclInvalidUsage, text)) report("NCCL: " + text);
}

bool receive_some(const CommRank& comm, Transfer& transfer, const MessageHead& head) {
  const Segment& segment = comm.segment();
  const Channel& channel = segment.channel(transfer.peer, comm.rank());
  bool moved = false;
  if (transfer.head_done == 0) {
    if (channel.written - channel.read < sizeof head) return false;
    MessageHead came;
    segment.read(transfer.peer, comm.rank(), reinterpret_cast<char*>(&came), sizeof came);
    transfer.head_done = sizeof head;
    moved = true;
    if (!matches(came, head)) {
      report_mismatch(comm, transfer.peer, came, head);
      return false;
    }
  }
  if (transfer.done == transfer.bytes || channel.written == channel.read) return moved;
  open_device_memory();
  const std::size_t bytes =
      segment.read(transfer.peer, comm.rank(), transfer.data + transfer.done, transfer.bytes - transfer.done);
  transfer.done += bytes;
  return true;
}

}  // namespace

std::uint64_t move_transfers(CommRank& comm, std::vector<Transfer>& transfers,
                             const std::vector<MessageHead>& heads, bool until_read) {
  const Segment& segment = comm.segment();
  std::uint64_t waits_for = 0, rings = 0;
  for (bool moved = true; moved && !comm.has_failed();) {
    moved = false;
    waits_for = 0;
    std::uint64_t busy_sending = 0, busy_receiving = 0;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      Transfer& transfer = transfers[i];
      const std::uint64_t peer = std::uint64_t{1} << transfer.peer;
      std::uint64_t& busy = transfer.is_send ? busy_sending : busy_receiving;
      if (!is_written(transfer) && (busy & peer) == 0) {
        if (!transfer.is_send && transfer.head_done == 0 && heads[i].shape.function == Function::receive) {
          Channel& channel = segment.channel(transfer.peer, comm.rank());
          if (channel.wanted <= heads[i].number) {
            channel.wanted = heads[i].number + 1;
            rings |= peer;
          }
        }
        if (transfer.is_send && heads[i].shape.function == Function::send) {
          segment.channel(comm.rank(), transfer.peer).sent = heads[i].number + 1;
        }
        if (transfer.is_send ? send_some(comm, transfer, heads[i]) : receive_some(comm, transfer, heads[i])) {
          moved = true;
          rings |= peer;
        }
      }
      if (!is_written(transfer)) {
        busy |= peer;
        waits_for |= peer;
      } else if (transfer.is_send && until_read &&
                 segment.channel(comm.rank(), transfer.peer).read < transfer.end) {
        waits_for |= peer;
      }
    }
    if (moved) note_activity();
  }
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    if ((rings >> rank & 1) != 0) segment.ring(rank);
  }
  return waits_for;
}

}  // namespace gpu_model::nccl
