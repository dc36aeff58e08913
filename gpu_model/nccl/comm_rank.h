#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu_model/nccl/call.h"
#include "gpu_model/nccl/segment.h"

namespace gpu_model::nccl {

class QueuedCalls;

/// The operation that a rank waits in, for reports.
struct Waiting {
  enum class Cause { none, turn, peers, data, split } cause = Cause::none;
  Shape shape{};
  std::uint64_t number = 0;  ///< of the collective, the message or the split, from 0
  std::uint64_t ranks = 0;   ///< a bit for each rank that has not arrived
  bool operator==(const Waiting&) const = default;
};

/// A rank of a communicator. It lives until the last operation queued with it is destroyed.
class CommRank {
 public:
  CommRank(int file, int rank, int device, std::string place);
  ~CommRank();
  CommRank(const CommRank&) = delete;
  CommRank& operator=(const CommRank&) = delete;

  const Segment& segment() const { return segment_; }
  bool is_mapped() const { return segment_.is_mapped(); }
  int rank() const { return rank_; }
  int ranks() const { return segment_.ranks(); }
  int device() const { return device_; }
  const std::string& place() const { return place_; }

  /// Starts the thread that advances the rank's operations while its host does other work, and waits until
  /// all ranks have started theirs.
  ncclResult_t start();
  /// Ends the thread; the other ranks detect that this rank has left.
  void leave(Presence how);
  /// Waits until the operations queued so far are complete; returns the communicator's error.
  ncclResult_t wait_for_operations();

  /// Whether an error has ended the communicator: its operations then never complete, unless it is aborted.
  bool has_failed() const { return segment_.error() != ncclSuccess; }
  /// The error; sets its text for ncclGetLastError().
  ncclResult_t error() const;
  bool is_aborted() const { return aborted_; }

  /// The number of a new operation, in the order of the calls.
  std::uint64_t issue() { return issued_++; }
  void take_back_issue() { --issued_; }
  std::uint64_t unfinished() const { return issued_ - finished_; }
  /// Must be called after an operation was queued: peers may wait for it.
  void has_queued();

  /// Records what the rank waits for; Cause::none: it does not wait.
  void set_waiting(const Waiting& waiting);
  /// The recorded wait; for a split, with the ranks that have not arrived by now.
  Waiting waiting() const;

  ncclResult_t split(int color, int key, std::string& place, int& new_ranks, int& new_rank);

  /// For QueuedCalls, which runs under the engine's mutex.
  struct Turn {
    const QueuedCalls* running = nullptr;
    std::uint64_t begun = 0;                    ///< operations begun, of those numbered by issue()
    std::uint64_t collectives = 0;              ///< collectives begun
    std::vector<std::uint64_t> sent, received;  ///< messages of ncclSend and ncclRecv, for each peer
  } turn;
  void has_finished() { ++finished_; }
  std::atomic<int> captured{0};  ///< operations in graphs

 private:
  void loop();
  bool peers_wait_for_this() const;
  /// A bit for each rank that has not called this split.
  std::uint64_t missing_in_split(std::uint64_t number) const;
  /// How the rank has left: "has destroyed its communicator"; "" if it has not.
  std::string end_of(int rank) const;
  /// Finds peers that have ended while an operation waits for them.
  void look_for_the_dead();

  Segment segment_;
  int rank_, device_;
  std::string place_;
  std::atomic<std::uint64_t> issued_{0}, finished_{0};
  std::atomic<bool> aborted_{false}, stopped_{false};
  mutable std::mutex waiting_mutex_;
  Waiting waiting_;
  std::thread thread_;
};

/// All communicators of this process that have started and not been destroyed.
std::vector<std::shared_ptr<CommRank>> all_communicators();
void remember(const std::shared_ptr<CommRank>& comm);
void forget(const CommRank* comm);

/// "rank 0 waits in ncclAllReduce of 4 ncclFloat32, ncclSum (collective 3 of the communicator) for rank 1"
std::string describe(const Waiting& waiting, int rank);

}  // namespace gpu_model::nccl

/// A handle.
struct ncclComm {
  std::shared_ptr<gpu_model::nccl::CommRank> self;
};
