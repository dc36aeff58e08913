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

/// Monitors the operations that a rank has queued on its GPU: keeps their tensors until they are complete,
/// has the watchdog watch them, and polls NCCL for asynchronous errors; after an error it ends the process.
class NcclMonitor {
 public:
  explicit NcclMonitor(std::string who);
  ~NcclMonitor();
  NcclMonitor(const NcclMonitor&) = delete;
  NcclMonitor& operator=(const NcclMonitor&) = delete;

  /// Ends the thread, so that it does not use an NCCL communicator that is about to be destroyed.
  void stop();

  const std::string& who() const { return who_; }
  Watchdog& watchdog() { return watchdog_; }
  /// `done` has been recorded after the operation.
  void add(ncclComm* comm, const Call& call, std::uint64_t watched, std::shared_ptr<NcclEvent> done,
           std::vector<Tensor> tensors);

 private:
  struct Pending {
    ncclComm* comm;
    Call call;
    std::uint64_t watched;
    std::shared_ptr<NcclEvent> done;
    std::vector<Tensor> tensors;
  };
  void loop();

  std::string who_;
  Watchdog watchdog_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;  // in the order of the stream
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace ringtape
