#include "dist/nccl_monitor.h"

#include <utility>

#include "core/error.h"
#include "dist/nccl_check.h"

namespace ringtape {
namespace {

constexpr std::chrono::milliseconds kInterval{5};

}  // namespace

NcclMonitor::NcclMonitor(std::string who) : who_(std::move(who)), thread_([this] { loop(); }) {}

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

void NcclMonitor::add(ncclComm* comm, const Call& call, std::uint64_t watched,
                      std::shared_ptr<NcclEvent> done, std::vector<Tensor> tensors) {
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back({comm, call, watched, std::move(done), std::move(tensors)});
  }
  changed_.notify_one();
}

void NcclMonitor::loop() {
  try {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopped_ || !pending_.empty(); });
      if (stopped_) return;
      while (!pending_.empty() && pending_.front().done->is_done()) {
        watchdog_.end(pending_.front().watched);
        pending_.pop_front();
      }
      if (pending_.empty()) continue;
      const Pending& oldest = pending_.front();
      ncclResult_t error = ncclSuccess;
      RINGTAPE_NCCL(ncclCommGetAsyncError(oldest.comm, &error));
      if (error != ncclSuccess && error != ncclInProgress) {
        end_process(
            fmt::format("{}: {} failed: NCCL: {}", who_, describe(oldest.call), ncclGetErrorString(error)));
      }
      changed_.wait_for(lock, kInterval, [this] { return stopped_; });
    }
  } catch (const std::exception& error) {
    end_process(who_ + ": " + error.what());
  }
}

}  // namespace ringtape
