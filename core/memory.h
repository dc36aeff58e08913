#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "core/device.h"

namespace ringtape {

/// The purpose of memory, set by a MemoryScope around the allocation.
enum class MemoryCategory : std::uint8_t {
  other,                 ///< the default: small values, such as a loss or a learning rate
  parameters,            ///< their values, and their 16-bit copy if any
  gradients,             ///< of the parameters
  optimizer_state,       ///< moments and momentum
  activations,           ///< results of forward
  activation_gradients,  ///< gradients of activations, during backward
  workspace,             ///< scratch memory of kernels
  data,                  ///< datasets and batches
};
constexpr std::size_t kMemoryCategories = 8;
/// "optimizer state", for tables.
const char* name_of(MemoryCategory category);

/// Bytes of each category.
struct BytesByCategory {
  std::array<std::size_t, kMemoryCategories> bytes{};  ///< by the category's number

  std::size_t& operator[](MemoryCategory category) { return bytes[static_cast<std::size_t>(category)]; }
  std::size_t operator[](MemoryCategory category) const { return bytes[static_cast<std::size_t>(category)]; }
  std::size_t total() const { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }
  bool operator==(const BytesByCategory&) const = default;
  /// The bytes of each category minus the bytes of `part`, which has at most as many in each.
  BytesByCategory operator-(const BytesByCategory& part) const {
    BytesByCategory rest;
    for (std::size_t i = 0; i < kMemoryCategories; ++i) rest.bytes[i] = bytes[i] - part.bytes[i];
    return rest;
  }
};

/// Allocations of this thread count toward `category` until the scope ends; the innermost scope wins.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
};

/// Byte counters of one device.
struct MemoryStats {
  std::size_t live = 0;  ///< allocated now, each block rounded up to 256 bytes, including a GraphMemoryPool's
  std::size_t peak = 0;  ///< highest `live` since the start or reset_peak_memory()
  std::size_t reserved = 0;     ///< taken from the system: `live` plus memory cached for reuse
  std::size_t allocations = 0;  ///< allocate() calls, except those that a GraphMemoryPool served by reuse
  BytesByCategory live_by_category{};
  BytesByCategory peak_by_category{};  ///< when `peak` was first reached
};

/// One allocation or release of memory.
struct MemoryEvent {
  std::chrono::steady_clock::time_point time;  ///< by the host's clock, as for spans
  MemoryCategory category;
  std::int64_t bytes;           ///< negative for a release
  const void* block = nullptr;  ///< address of the memory
  std::thread::id thread{};     ///< of the allocation or release
};

/// Records every allocation on a device and every release, by all threads, until stop() or the end of the
/// scope. Several can be active at a time.
class MemoryRecording {
 public:
  using Clock = std::chrono::steady_clock;  // as for spans

  explicit MemoryRecording(Device device);
  ~MemoryRecording();
  MemoryRecording(const MemoryRecording&) = delete;
  MemoryRecording& operator=(const MemoryRecording&) = delete;

  void stop();
  /// Bytes of each category at the start.
  const BytesByCategory& start() const { return start_; }
  Clock::time_point begin() const { return begin_; }
  /// In chronological order. Read them after stop().
  const std::vector<MemoryEvent>& events() const { return events_; }

 private:
  Device device_;
  Clock::time_point begin_ = Clock::now();
  std::vector<MemoryEvent> events_;
  BytesByCategory start_;
  bool running_ = true;
};

/// Memory for `bytes` bytes on `device`, aligned to 256 bytes, not initialised. It goes back to the device's
/// cache when the last pointer to it is destroyed. On CUDA both happen in the order of the stream that is
/// current at the allocation (cudaMallocAsync): before the release, wait for work on other streams that uses
/// the memory. Throws OutOfMemoryError that names the requested and the live bytes, and the limit or the
/// reserved bytes.
std::shared_ptr<void> allocate(Device device, std::size_t bytes);

/// Host memory for copies to and from `device`: pinned (page-locked) for a GPU, so that copies can be
/// asynchronous; ordinary aligned memory for the CPU. Not counted in memory_stats(). Throws OutOfMemoryError.
std::shared_ptr<void> allocate_pinned(std::size_t bytes, Device device);

/// The counts of `device` at this moment. May be called from any thread.
MemoryStats memory_stats(Device device);
/// Sets `peak` to `live`.
void reset_peak_memory(Device device);
/// Returns cached memory to the system.
void empty_cache(Device device);
/// Makes allocate() throw OutOfMemoryError if `live` would exceed `bytes`; 0 removes the limit.
void set_memory_limit(Device device, std::size_t bytes);
/// Bytes of the device's memory; for the CPU, of the machine's memory.
std::size_t physical_memory(Device device);
/// The largest possible number of live bytes: the limit if one is set, else physical_memory().
std::size_t memory_capacity(Device device);

/// Copies `bytes` bytes between any two devices, in the order of their current streams. If one side is host
/// memory, the copy has finished when this returns.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

/// The same without waiting if the host memory comes from allocate_pinned(). Host memory, pinned or not, must
/// not be changed or freed until the GPU's current stream has finished the copy: CUDA may read it during the
/// call or later.
void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

}  // namespace ringtape
