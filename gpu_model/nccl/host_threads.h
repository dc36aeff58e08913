#pragma once

#include <cstdint>

/// The threads of this process that use NCCL: whether any of them may still queue what others wait for.
namespace gpu_model::nccl {

/// Counts the calling thread in. Every function that queues an operation or waits for ranks does so first.
void enter_host_thread();

/// Something has happened in this process that others may have waited for.
void note_activity();
std::uint64_t activity();

/// Whether all threads counted in wait: for operations, in the engine, or for ranks, in NCCL.
bool all_host_threads_wait();

/// The calling thread waits for ranks.
class HostWait {
 public:
  HostWait();
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;
};

}  // namespace gpu_model::nccl
