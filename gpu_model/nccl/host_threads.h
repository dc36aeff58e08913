#pragma once

#include <cstdint>
#include <functional>

/// The threads of this process that use NCCL: whether any of them may still queue work that others wait for.
namespace gpu_model::nccl {

/// Registers the calling thread. Every function that queues an operation or waits for ranks calls it first.
void enter_host_thread();

/// Records activity in this process that others may have waited for.
void note_activity();
std::uint64_t activity();

/// Whether all registered threads wait: for operations, in the engine, or for ranks, in NCCL. A thread whose
/// wait is over does not wait, even if the system has not run it since.
bool all_host_threads_wait();

/// The calling thread waits for ranks until `is_over()`, which other threads call too.
class HostWait {
 public:
  explicit HostWait(std::function<bool()> is_over);
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;
};

}  // namespace gpu_model::nccl
