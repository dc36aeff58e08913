#include "core/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/capture.h"
#include "core/ceil_div.h"
#include "core/cuda_check.h"
#include "core/error.h"
#include "core/graph_memory.h"
#include "core/stream.h"

namespace ringtape {
namespace {

constexpr std::size_t kAlignment = 256;

thread_local MemoryCategory current_category = MemoryCategory::other;

/// The counters of one device; the subclasses for CPU and CUDA add the source of the memory.
class Pool {
 public:
  explicit Pool(Device device) : device_(device) {}
  virtual ~Pool() = default;

  std::shared_ptr<void> allocate(std::size_t bytes) {
    const std::size_t rounded = round_up(bytes == 0 ? 1 : bytes, kAlignment);
    const std::lock_guard lock(mutex_);
    if (rounded < bytes || (limit_ != 0 && stats_.live + rounded > limit_)) {
      throw OutOfMemoryError(fmt::format("out of memory on {}: {} bytes requested, {} live, limit {}",
                                         to_string(device_), bytes, stats_.live, limit_));
    }
    void* const stream = Stream::current(device_).native();
    void* const address = take(bytes == 0 ? 1 : bytes, rounded, stream);
    if (address == nullptr) {
      throw OutOfMemoryError(fmt::format("out of memory on {}: {} bytes requested, {} live, {} reserved",
                                         to_string(device_), bytes, stats_.live, stats_.reserved));
    }
    const MemoryCategory category = current_category;
    count_taken(address, rounded, category);
    return {address, [this, rounded, stream, category](void* block) {
              const std::lock_guard relock(mutex_);
              count_given_back(block, rounded, category);
              give_back(block, rounded, stream);
            }};
  }

  /// Starts to append to `events`. Returns the live bytes.
  BytesByCategory start_recording(std::vector<MemoryEvent>& events) {
    const std::lock_guard lock(mutex_);
    recordings_.push_back(&events);
    return stats_.live_by_category;
  }

  void stop_recording(const std::vector<MemoryEvent>& events) {
    const std::lock_guard lock(mutex_);
    std::erase(recordings_, &events);
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    update_reserved();
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
    stats_.peak_by_category = stats_.live_by_category;
  }

  void set_limit(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

  std::size_t capacity() {
    const std::lock_guard lock(mutex_);
    return limit_ != 0 ? limit_ : physical_memory(device_);
  }

  void empty_cache() {
    const std::lock_guard lock(mutex_);
    trim();
  }

 protected:
  /// Memory for a block, or null if none is available. `stream` is the native stream that the block belongs
  /// to.
  virtual void* take(std::size_t bytes, std::size_t rounded, void* stream) = 0;
  /// Called by destructors: must not throw.
  virtual void give_back(void* block, std::size_t rounded, void* stream) = 0;
  virtual void trim() = 0;
  virtual void update_reserved() {}

  Device device_;
  MemoryStats stats_;

 private:
  void count_taken(const void* block, std::size_t bytes, MemoryCategory category) {
    stats_.live += bytes;
    stats_.live_by_category[category] += bytes;
    ++stats_.allocations;
    if (stats_.live > stats_.peak) {
      stats_.peak = stats_.live;
      stats_.peak_by_category = stats_.live_by_category;
    }
    if (!recordings_.empty()) note(block, category, static_cast<std::int64_t>(bytes));
  }
  void count_given_back(const void* block, std::size_t bytes, MemoryCategory category) {
    stats_.live -= bytes;
    stats_.live_by_category[category] -= bytes;
    if (!recordings_.empty()) note(block, category, -static_cast<std::int64_t>(bytes));
  }
  void note(const void* block, MemoryCategory category, std::int64_t bytes) {
    const MemoryEvent event{MemoryRecording::Clock::now(), category, bytes, block,
                            std::this_thread::get_id()};
    for (std::vector<MemoryEvent>* events : recordings_) events->push_back(event);
  }

  std::mutex mutex_;
  std::size_t limit_ = 0;
  std::vector<std::vector<MemoryEvent>*> recordings_;
};

/// Freed blocks are kept by size: every training step allocates the same sizes, and a new block from the
/// system costs a page fault for every 4 KiB.
class CpuPool final : public Pool {
 public:
  CpuPool() : Pool(Device{}) {}

 private:
#if defined(__SANITIZE_ADDRESS__)
  // Exact sizes and no reuse, so that AddressSanitizer sees every overflow and use after free.
  void* take(std::size_t bytes, std::size_t rounded, void*) override {
    void* block = nullptr;
    if (posix_memalign(&block, kAlignment, bytes) != 0) return nullptr;
    stats_.reserved += rounded;
    return block;
  }
  void give_back(void* block, std::size_t rounded, void*) override {
    std::free(block);
    stats_.reserved -= rounded;
  }
  void trim() override {}
#else
  void* take(std::size_t, std::size_t rounded, void*) override {
    std::vector<void*>& blocks = free_[rounded];
    if (!blocks.empty()) {
      void* const block = blocks.back();
      blocks.pop_back();
      return block;
    }
    void* block = std::aligned_alloc(kAlignment, rounded);
    if (block == nullptr) {
      trim();
      block = std::aligned_alloc(kAlignment, rounded);
    }
    if (block != nullptr) stats_.reserved += rounded;
    return block;
  }
  void give_back(void* block, std::size_t rounded, void*) override {
    free_[rounded].push_back(block);
  }
  void trim() override {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) std::free(block);
      stats_.reserved -= size * blocks.size();
    }
    free_.clear();
  }
  std::map<std::size_t, std::vector<void*>> free_;
#endif
};

#ifdef RINGTAPE_WITH_CUDA
/// For destructors, which cannot report errors: a failure here must not become the "last error" of a later
/// call.
void drop_error(cudaError_t code) {
  if (code != cudaSuccess) cudaGetLastError();
}

/// CUDA's stream-ordered pool, configured to keep freed memory.
class CudaPool final : public Pool {
 public:
  explicit CudaPool(Device device) : Pool(device) {
    RINGTAPE_CUDA(cudaDeviceGetDefaultMemPool(&pool_, device.index));
    std::uint64_t keep_all = UINT64_MAX;
    RINGTAPE_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all));
  }

 private:
  void* take(std::size_t, std::size_t rounded, void* stream) override {
    forbid_in_capture("memory is allocated outside of the graph's pool");
    void* block = nullptr;
    cudaError_t code = cudaMallocAsync(&block, rounded, static_cast<cudaStream_t>(stream));
    if (code == cudaErrorMemoryAllocation && free_waiting() > 0) {
      cudaGetLastError();
      code = cudaMallocAsync(&block, rounded, static_cast<cudaStream_t>(stream));
    }
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check_cuda(code, "cudaMallocAsync");
    return block;
  }
  void give_back(void* block, std::size_t, void* stream) override {
    freed_.emplace_back(block, stream);
    free_waiting();
  }
  /// Returns how many of freed_ it has freed.
  std::size_t free_waiting() {
    return std::erase_if(freed_, [](const auto& freed) { return free_now(freed.first, freed.second); });
  }
  /// False while this thread is capturing, or another thread is capturing this stream: the free would become
  /// part of the graph.
  static bool free_now(void* block, void* stream) {
    if (is_captured(stream)) return false;
    drop_error(cudaFreeAsync(block, static_cast<cudaStream_t>(stream)));  // may fail at process exit
    return true;
  }
  static bool is_captured(void* stream) {
    if (is_capturing()) return true;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    drop_error(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status));
    return status != cudaStreamCaptureStatusNone;
  }
  void trim() override {
    RINGTAPE_CUDA(cudaSetDevice(device_.index));
    free_waiting();
    RINGTAPE_CUDA(cudaDeviceSynchronize());
    RINGTAPE_CUDA(cudaMemPoolTrimTo(pool_, 0));
  }
  void update_reserved() override {
    std::uint64_t bytes = 0;
    RINGTAPE_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes));
    stats_.reserved = bytes;
  }
  cudaMemPool_t pool_;
  std::vector<std::pair<void*, void*>> freed_;  // waiting for the end of a capture: blocks and their streams
};
#endif

/// Pools are never destroyed: tensors in static storage may be freed after main() has ended.
Pool& pool(Device device) {
  static Pool* const cpu = new CpuPool;
  if (device.is_cpu()) return *cpu;
#ifdef RINGTAPE_WITH_CUDA
  static std::mutex mutex;
  static auto* const pools = new std::map<int, Pool*>;
  const std::lock_guard lock(mutex);
  Pool*& entry = (*pools)[device.index];
  if (entry == nullptr) entry = new CudaPool(device);
  return *entry;
#else
  fail("no memory of {}: this build has no CUDA kernels", to_string(device));
#endif
}

#ifdef RINGTAPE_WITH_CUDA
/// Makes work queued on `later` from now on wait for the work already queued on `earlier`.
void make_wait(const Stream& later, const Stream& earlier) {
  Event event(earlier.device());
  event.record(earlier);
  event.wait_on(later);
}
#endif

}  // namespace

const char* name_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::other:
      return "other";
    case MemoryCategory::parameters:
      return "parameters";
    case MemoryCategory::gradients:
      return "gradients";
    case MemoryCategory::optimizer_state:
      return "optimizer state";
    case MemoryCategory::activations:
      return "activations";
    case MemoryCategory::activation_gradients:
      return "activation gradients";
    case MemoryCategory::workspace:
      return "workspace";
    case MemoryCategory::data:
      return "data";
  }
  fail("memory category {} is unknown", static_cast<int>(category));
}

std::size_t physical_memory(Device device) {
#ifdef RINGTAPE_WITH_CUDA
  if (device.is_cuda()) {
    cudaDeviceProp properties;
    RINGTAPE_CUDA(cudaGetDeviceProperties(&properties, device.index));
    return properties.totalGlobalMem;
  }
#endif
  check(device.is_cpu(), "memory of {}: this build has no CUDA kernels", to_string(device));
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

MemoryScope::MemoryScope(MemoryCategory category) : previous_(std::exchange(current_category, category)) {}
MemoryScope::~MemoryScope() {
  current_category = previous_;
}

MemoryRecording::MemoryRecording(Device device)
    : device_(device), start_(pool(device).start_recording(events_)) {}
MemoryRecording::~MemoryRecording() {
  stop();
}
void MemoryRecording::stop() {
  if (std::exchange(running_, false)) pool(device_).stop_recording(events_);
}

std::shared_ptr<void> allocate(Device device, std::size_t bytes) {
  return GraphMemoryPool::take(device, bytes,
                               [](Device on, std::size_t count) { return pool(on).allocate(count); });
}

std::shared_ptr<void> allocate_pinned(std::size_t bytes, [[maybe_unused]] Device device) {
#ifdef RINGTAPE_WITH_CUDA
  if (device.is_cuda()) {
    RINGTAPE_CUDA(cudaSetDevice(device.index));  // a new thread's default is GPU 0
    void* block = nullptr;
    const cudaError_t code = cudaMallocHost(&block, bytes);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemoryError(fmt::format("out of pinned host memory: {} bytes requested", bytes));
    }
    check_cuda(code, "cudaMallocHost");
    return {block, [](void* address) { drop_error(cudaFreeHost(address)); }};
  }
#endif
  void* const block = std::aligned_alloc(kAlignment, round_up(bytes == 0 ? 1 : bytes, kAlignment));
  if (block == nullptr) throw OutOfMemoryError(fmt::format("out of host memory: {} bytes requested", bytes));
  return {block, [](void* address) { std::free(address); }};
}

MemoryStats memory_stats(Device device) {
  return pool(device).stats();
}
void reset_peak_memory(Device device) {
  pool(device).reset_peak();
}
void empty_cache(Device device) {
  pool(device).empty_cache();
}
void set_memory_limit(Device device, std::size_t bytes) {
  pool(device).set_limit(bytes);
}

std::size_t memory_capacity(Device device) {
  return pool(device).capacity();
}

void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
#ifdef RINGTAPE_WITH_CUDA
  if (to_device.is_cuda() || from_device.is_cuda()) {
    if (to_device.is_cpu() || from_device.is_cpu()) forbid_in_capture("a copy between the host and a GPU");
    const Stream stream = Stream::current(to_device.is_cuda() ? to_device : from_device);
    const bool between_gpus = to_device.is_cuda() && from_device.is_cuda() && to_device != from_device;
    const auto native = static_cast<cudaStream_t>(stream.native());
    if (!between_gpus) {
      RINGTAPE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native));
      return;
    }
    const Stream source = Stream::current(from_device);
    make_wait(stream, source);
    // cudaMemcpyAsync would need access of one GPU to the other's pool.
    RINGTAPE_CUDA(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, bytes, native));
    make_wait(source, stream);
    return;
  }
#endif
  check(to_device.is_cpu() && from_device.is_cpu(), "copy from {} to {}: this build has no CUDA kernels",
        to_string(from_device), to_string(to_device));
  std::memcpy(to, from, bytes);
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  copy_bytes_async(to, to_device, from, from_device, bytes);
  if (to_device.is_cpu() != from_device.is_cpu()) {
    Stream::current(to_device.is_cuda() ? to_device : from_device).synchronize();
  }
}

}  // namespace ringtape
