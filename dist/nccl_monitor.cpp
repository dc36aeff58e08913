#include "dist/nccl_monitor.h"

#include <utility>

#include "core/error.h"
#include "dist/nccl_check.h"

namespace ringtape {
namespace {

constexpr std::chrono::milliseconds kInterval{5};

}  // namespace

NcclMonitor::NcclMonitor(std::string rank_name, Device device)
    : rank_name_(std::move(rank_name)), device_(device), thread_([this] { loop(); }) {}

NcclMonitor::~NcclMonitor() {
  stop();
}

void NcclMonitor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void NcclMonitor::add(ncclComm* comm, const Call& call, Watchdog::Watch watch,
                      std::shared_ptr<NcclOperation> operation) {
  {
    const std::lock_guard lock(mutex_);
    watch.hold();
    pending_.push_back({comm, call, std::move(operation), std::move(watch)});
  }
  changed_.notify_one();
}

void NcclMonitor::loop() {
  try {
    RINGTAPE_CUDA(cudaSetDevice(device_.index));
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopped_ || !pending_.empty(); });
      if (stopped_) return;
      while (!pending_.empty() && pending_.front().operation->done.is_done()) {
        pending_.pop_front();
      }
      if (pending_.empty()) continue;
      Pending& oldest = pending_.front();
      if (!oldest.has_begun && oldest.operation->ready.is_done()) {
        oldest.has_begun = true;
        oldest.watch.restart();
      }
      ncclResult_t error = ncclSuccess;
      RINGTAPE_NCCL(ncclCommGetAsyncError(oldest.comm, &error));
      if (error != ncclSuccess && error != ncclInProgress) {
        end_process(fmt::format("{}: {} failed: NCCL: {}", rank_name_, describe(oldest.call),
                                ncclGetErrorString(error)));
      }
      changed_.wait_for(lock, kInterval, [this] { return stopped_; });
    }
  } catch (const std::exception& error) {
    end_process(rank_name_ + ": " + error.what());
  }
}

}  // namespace ringtape
