#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"

namespace ringtape {

/// Byte counters of one device.
struct MemoryStats {
  std::size_t live = 0;         ///< held by tensors now, each allocation rounded up to 256 bytes
  std::size_t peak = 0;         ///< highest `live` since the start or reset_peak_memory()
  std::size_t reserved = 0;     ///< taken from the system: `live` plus what is cached for reuse
  std::size_t allocations = 0;  ///< number of allocate() calls
};

/// Memory for `bytes` bytes on `device`, aligned to 256 bytes, not initialised. It goes back to the device's
/// cache when the last pointer to it is gone; on CUDA both happen in the order of the stream that is current
/// at the allocation (cudaMallocAsync): work on other streams that uses the memory must be waited for before.
/// Throws OutOfMemoryError naming the bytes asked for, live and allowed.
std::shared_ptr<void> allocate(Device device, std::size_t bytes);

/// Pinned (page-locked) host memory where a GPU is usable, so that copies to it are asynchronous; ordinary
/// aligned host memory otherwise. Not counted in memory_stats().
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

MemoryStats memory_stats(Device device);
/// Sets `peak` to `live`.
void reset_peak_memory(Device device);
/// Gives cached memory back to the system.
void empty_cache(Device device);
/// Makes allocate() throw OutOfMemoryError once `live` would pass `bytes`; 0 removes the limit.
void set_memory_limit(Device device, std::size_t bytes);

/// Copies `bytes` bytes between any two devices, in the order of their current streams. Where one side is
/// host memory the copy has finished when this returns.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

/// The same without waiting. Host memory must come from allocate_pinned() and stay as it is until the GPU's
/// current stream has passed this copy.
void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

}  // namespace ringtape
