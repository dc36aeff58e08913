#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/communicator.h"
#include "dist/nccl_event.h"
#include "dist/watchdog.h"

struct ncclComm;

namespace ringtape {

/// An operation in an NCCL communicator's stream.
struct NcclOperation {
  NcclEvent ready;              ///< in the caller's stream, at the call: the input has been computed
  NcclEvent done;               ///< in the communicator's stream, after the operation
  std::vector<Tensor> tensors;  ///< kept until the caller's stream waits for the operation
};

/// Monitors the operations that a rank has queued on its GPU: keeps them until they are complete, has the
/// watchdog watch them, and polls NCCL for asynchronous errors; after an error it ends the process. An
/// operation's time counts from the moment at which its input is computed and the operation before it has
/// ended: on a GPU the host queues many, far ahead of the computation.
class NcclMonitor {
 public:
  /// `device` becomes the current GPU of the monitor's thread: a thread's default is GPU 0, on which it would
  /// create a context.
  NcclMonitor(std::string rank_name, Device device);
  ~NcclMonitor();
  NcclMonitor(const NcclMonitor&) = delete;
  NcclMonitor& operator=(const NcclMonitor&) = delete;

  /// Ends the thread, so that it does not use an NCCL communicator that is about to be destroyed.
  void stop();

  const std::string& rank_name() const { return rank_name_; }
  Watchdog& watchdog() { return watchdog_; }
  /// Monitors an operation that has been queued. `watch`: of watchdog().
  void add(ncclComm* comm, const Call& call, Watchdog::Watch watch, std::shared_ptr<NcclOperation> operation);

 private:
  struct Pending {
    ncclComm* comm;
    Call call;
    std::shared_ptr<NcclOperation> operation;
    Watchdog::Watch watch;  // ends before the operation's tensors are released
    bool has_begun = false;
  };
  void loop();

  std::string rank_name_;
  Device device_;
  Watchdog watchdog_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;  // in the order of the stream
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace ringtape
