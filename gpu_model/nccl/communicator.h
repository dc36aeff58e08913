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

class Work;

/// What a rank waits for, for reports.
struct Waiting {
  enum class For { nothing, turn, peers, data, split } what = For::nothing;
  Shape shape{};
  std::uint64_t number = 0;  ///< of the collective, the message or the split, from 0
  std::uint64_t ranks = 0;   ///< a bit for each rank that has to come
  bool operator==(const Waiting&) const = default;
};

/// A rank of a communicator. It lives until the last operation that was queued with it is gone.
class Communicator {
 public:
  Communicator(int file, int rank, int device, std::string place);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const Segment& segment() const { return segment_; }
  bool is_mapped() const { return segment_.is_mapped(); }
  int rank() const { return rank_; }
  int ranks() const { return segment_.ranks(); }
  int device() const { return device_; }
  const std::string& place() const { return place_; }

  /// Starts the thread that lets the rank's operations go on while its host does something else, and waits
  /// until all ranks have.
  ncclResult_t start();
  /// Ends the thread; the other ranks see that this one has gone.
  void leave(Presence how);
  /// Waits until the operations queued so far are done; what has become of the communicator.
  ncclResult_t wait_for_operations();

  /// Whether an error has ended the communicator: its operations never end then, unless it is aborted.
  bool has_failed() const { return segment_.error() != ncclSuccess; }
  /// The error, whose text is then ncclGetLastError()'s.
  ncclResult_t error() const;
  bool is_aborted() const { return aborted_; }

  /// The number of an operation that is queued, in the order of the calls.
  std::uint64_t issue() { return issued_++; }
  void take_back_issue() { --issued_; }
  std::uint64_t unfinished() const { return issued_ - finished_; }
  /// Called when an operation was queued: peers may wait for it.
  void has_queued();

  /// Notes what the rank waits for, with For::nothing that it waits no more.
  void set_waiting(const Waiting& waiting);
  Waiting waiting() const;

  ncclResult_t split(int color, int key, std::string& place, int& new_ranks, int& new_rank);

  /// For Work, which runs under the engine's mutex.
  struct Turn {
    const Work* running = nullptr;
    std::uint64_t begun = 0;                    ///< of the operations that issue() numbered
    std::uint64_t collectives = 0;              ///< begun
    std::vector<std::uint64_t> sent, received;  ///< messages of ncclSend and ncclRecv, for each peer
  } turn;
  void has_finished() { ++finished_; }
  std::atomic<int> captured{0};  ///< operations in graphs

 private:
  void loop();
  bool peers_wait_for_this() const;
  /// Finds peers that have gone and that an operation waits for.
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

/// All communicators of this process that have started and not been left.
std::vector<std::shared_ptr<Communicator>> all_communicators();
void remember(const std::shared_ptr<Communicator>& comm);
void forget(const Communicator* comm);

/// "rank 0 waits in ncclAllReduce of 4 ncclFloat32, ncclSum (collective 3 of the communicator) for rank 1"
std::string describe(const Waiting& waiting, int rank);

}  // namespace gpu_model::nccl

/// A handle.
struct ncclComm {
  std::shared_ptr<gpu_model::nccl::Communicator> self;
};
