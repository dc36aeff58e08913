#include <cstring>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/capture.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

/// Allocation of device memory and of pinned host memory.
namespace gpu_model {

int memory_device(const void* address) {
  for (const auto& device : state().devices) {
    if (device->space != nullptr && device->space->contains(address)) return device->index;
  }
  return -1;
}

Block* live_block(const void* address, std::size_t bytes) {
  const int device = memory_device(address);
  if (device < 0) return nullptr;
  Block* const block = state().devices[static_cast<std::size_t>(device)]->pool->find(address).second;
  if (block == nullptr || block->is_free) return nullptr;
  const BlockHistory& allocation = *block->history;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(address) + bytes;
  return end <= allocation.begin + allocation.requested ? block : nullptr;
}

std::shared_ptr<BlockHistory> history_at(const void* address) {
  const int device = memory_device(address);
  return device < 0 ? nullptr : state().devices[static_cast<std::size_t>(device)]->pool->history_at(address);
}

bool fails_on_request() {
  return state().allocations_until_failure > 0 && --state().allocations_until_failure == 0;
}

namespace {

CUmemPoolHandle_st& pool_of(int device) {
  return *open_device(device).pool;
}

void describe_block(std::uintptr_t begin, Block& block, std::size_t bytes, const char* function,
                    const void* caller, int stream) {
  static std::uint64_t numbers = 0;
  block.in_graph = block.is_launched = false;
  block.history =
      std::make_shared<BlockHistory>(BlockHistory{++numbers, bytes, begin, function, caller, stream, false});
}

Operation memory_operation(Kind kind, const char* name, const void* caller, void* address,
                           std::size_t bytes) {
  Operation operation;
  operation.kind = kind;
  operation.name = name;
  operation.caller = caller;
  operation.bytes = bytes;
  operation.writes = {{address, bytes}};
  operation.run = [kind, address, bytes] {
    kind == Kind::allocation ? fill_fresh(address, bytes) : fill_freed(address, bytes);
    return Progress::done;
  };
  return operation;
}

/// Memory that a capture allocates: it belongs to the graph until the graph and its executable graphs are
/// destroyed.
void keep_for_graph(Capture& capture, int device, std::uintptr_t begin, Block& block,
                    const std::vector<NodePtr>& wait_for) {
  block.in_graph = block.history->in_graph = true;
  std::shared_ptr<GraphMemory>& memory = capture.body.memory;
  if (memory == nullptr) memory = std::make_shared<GraphMemory>();
  memory->blocks.emplace_back(device, begin);
  memory->after.insert(memory->after.end(), wait_for.begin(), wait_for.end());
}

cudaError_t allocate(Lock& lock, void** address, std::size_t bytes, const void* caller) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (device_count() == 0) return cudaErrorNoDevice;
  if (const cudaError_t error = forbid_in_captures()) return error;
  CUmemPoolHandle_st& pool = pool_of(thread_state().device);
  if (bytes == 0) return cudaSuccess;
  if (fails_on_request()) return cudaErrorMemoryAllocation;
  std::vector<NodePtr> wait_for;
  std::uintptr_t begin = pool.take(bytes, state().host, wait_for);
  if (begin == 0) return cudaErrorMemoryAllocation;
  for (const NodePtr& freed : wait_for) {
    run_until(lock, freed);
    host_has_waited_for(freed->clock);
  }
  Block& block = *pool.find(reinterpret_cast<void*>(begin)).second;
  describe_block(begin, block, bytes, "cudaMalloc", caller, -1);
  *address = reinterpret_cast<void*>(begin);
  open_device_memory();
  fill_fresh(*address, block.bytes);
  return cudaSuccess;
}

/// Memory of a graph is freed from outside only between a launch that allocated it and the next.
bool is_allocated(const Block* block) {
  return block != nullptr && !block->is_free && (!block->in_graph || block->is_launched);
}

cudaError_t free_now(Lock& lock, void* address, const void* caller) {
  if (address == nullptr) return cudaSuccess;
  if (const cudaError_t error = forbid_in_captures()) return error;
  const int device = memory_device(address);
  if (device < 0) return cudaErrorInvalidValue;
  wait_for_device(lock, device);
  CUmemPoolHandle_st& pool = pool_of(device);
  const auto [begin, block] = pool.find(address);
  if (!is_allocated(block) || begin != reinterpret_cast<std::uintptr_t>(address))
    return cudaErrorInvalidValue;
  open_device_memory();
  fill_freed(address, block->bytes);
  block->history->freed.name = "cudaFree";
  block->history->freed.caller = caller;
  if (block->in_graph) {
    block->is_launched = false;  // the addresses stay the graph's
  } else {
    pool.give_back(begin, nullptr);
  }
  return cudaSuccess;
}

cudaError_t allocate_in_stream(void** address, std::size_t bytes, cudaStream_t handle, const void* caller) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  if (stream->capture != nullptr && stream->capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (fails_on_request()) return cudaErrorMemoryAllocation;
  CUmemPoolHandle_st& pool = pool_of(stream->device);
  // Later work in the stream is ordered after this.
  Clock clock = state().host;
  if (stream->last != nullptr) clock.merge(stream->last->clock);
  std::vector<NodePtr> wait_for;
  const bool captures = stream->capture != nullptr;
  const std::uintptr_t begin = pool.take(bytes, captures ? state().host : clock, wait_for);
  if (begin == 0) return cudaErrorMemoryAllocation;
  Block& block = *pool.find(reinterpret_cast<void*>(begin)).second;
  describe_block(begin, block, bytes, "cudaMallocAsync", caller, stream->number);
  if (captures) keep_for_graph(*stream->capture, stream->device, begin, block, wait_for);
  *address = reinterpret_cast<void*>(begin);
  NodePtr node;
  return queue(*stream,
               std::make_shared<const Operation>(
                   memory_operation(Kind::allocation, "cudaMallocAsync", caller, *address, block.bytes)),
               node, wait_for);
}

cudaError_t free_in_stream(void* address, cudaStream_t handle, const void* caller) {
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (address == nullptr) return cudaSuccess;
  const int device = memory_device(address);
  // The reference names no error for a stream of another device, which is always a mistake.
  if (device < 0 || device != stream->device) return cudaErrorInvalidValue;
  CUmemPoolHandle_st& pool = pool_of(device);
  const auto [begin, block] = pool.find(address);
  if (block == nullptr || begin != reinterpret_cast<std::uintptr_t>(address)) return cudaErrorInvalidValue;
  const bool captures = stream->capture != nullptr;
  if (captures ? block->is_free || !block->in_graph : !is_allocated(block)) return cudaErrorInvalidValue;
  NodePtr node;
  const cudaError_t error = queue(*stream,
                                  std::make_shared<const Operation>(memory_operation(
                                      Kind::release, "cudaFreeAsync", caller, address, block->bytes)),
                                  node);
  if (error != cudaSuccess || captures) return error;
  if (block->in_graph) {
    block->is_launched = false;  // the addresses stay the graph's
  } else {
    pool.give_back(begin, node);
  }
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** address, std::size_t bytes, const void* caller) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (device_count() == 0) return cudaErrorNoDevice;
  open_device(thread_state().device);
  if (const cudaError_t error = forbid_in_captures()) return error;
  if (bytes == 0) return cudaSuccess;
  if (fails_on_request()) return cudaErrorMemoryAllocation;
  *address = state().pinned.allocate(bytes, caller);
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

}  // namespace
}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) { return allocate(lock, address, bytes, caller); });
}

cudaError_t cudaFree(void* address) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) { return free_now(lock, address, caller); });
}

cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t stream) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return allocate_in_stream(address, bytes, stream, caller); });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return free_in_stream(address, stream, caller); });
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return allocate_pinned(address, bytes, caller); });
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) {
    return flags > cudaHostAllocPortable ? cudaErrorInvalidValue : allocate_pinned(address, bytes, caller);
  });
}

/// Reports memory that a copy in flight uses, as the reference does not say that the call waits; then waits
/// for the devices.
cudaError_t cudaFreeHost(void* address) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) {
    if (address == nullptr) return cudaSuccess;
    if (const cudaError_t error = forbid_in_captures()) return error;
    if (const PinnedMemory::Use* const use = state().pinned.use_of(address)) {
      report("cudaFreeHost in " + place_of(caller) + " frees pinned memory that a copy on stream " +
             std::to_string(use->stream) + " " + use->name + " (" + std::to_string(use->bytes) +
             " bytes, queued in " + place_of(use->caller) + "), and the host has not waited for the copy");
      for (const auto& device : state().devices) {
        if (device->space != nullptr) wait_for_device(lock, device->index);
      }
    }
    return state().pinned.free(address) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return api([&](Lock&) {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    if (device_count() == 0) return cudaErrorNoDevice;
    const CUmemPoolHandle_st& pool = pool_of(thread_state().device);
    *total = pool.capacity();
    *free = pool.capacity() - pool.reserved();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return api([&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    const int device = memory_device(address);
    void* const same = const_cast<void*>(address);
    if (device >= 0) {
      *attributes = {cudaMemoryTypeDevice, device, same, nullptr};
    } else if (state().pinned.find(address, 1).second != nullptr) {
      *attributes = {cudaMemoryTypeHost, thread_state().device, same, same};
    } else {
      *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, same};
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api([&](Lock&) {
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    *pool = &pool_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api([&](Lock&) {
    if (pool == nullptr || value == nullptr) return cudaErrorInvalidValue;
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
        pool->reuse_follow_event_dependencies = *static_cast<int*>(value);
        return cudaSuccess;
      case cudaMemPoolReuseAllowOpportunistic:
        pool->reuse_allow_opportunistic = *static_cast<int*>(value);
        return cudaSuccess;
      case cudaMemPoolReuseAllowInternalDependencies:
        pool->reuse_allow_internal_dependencies = *static_cast<int*>(value);
        return cudaSuccess;
      case cudaMemPoolAttrReleaseThreshold:
        pool->release_threshold = *static_cast<std::uint64_t*>(value);
        return cudaSuccess;
      case cudaMemPoolAttrReservedMemHigh:
      case cudaMemPoolAttrUsedMemHigh:
        if (*static_cast<std::uint64_t*>(value) != 0) return cudaErrorInvalidValue;
        (attribute == cudaMemPoolAttrUsedMemHigh ? pool->max_used : pool->max_reserved) =
            attribute == cudaMemPoolAttrUsedMemHigh ? pool->used() : pool->reserved();
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return api([&](Lock&) {
    if (pool == nullptr || value == nullptr) return cudaErrorInvalidValue;
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
        *static_cast<int*>(value) = pool->reuse_follow_event_dependencies;
        break;
      case cudaMemPoolReuseAllowOpportunistic:
        *static_cast<int*>(value) = pool->reuse_allow_opportunistic;
        break;
      case cudaMemPoolReuseAllowInternalDependencies:
        *static_cast<int*>(value) = pool->reuse_allow_internal_dependencies;
        break;
      case cudaMemPoolAttrReleaseThreshold:
        *static_cast<std::uint64_t*>(value) = pool->release_threshold;
        break;
      case cudaMemPoolAttrReservedMemCurrent:
        *static_cast<std::uint64_t*>(value) = pool->reserved();
        break;
      case cudaMemPoolAttrReservedMemHigh:
        *static_cast<std::uint64_t*>(value) = pool->max_reserved;
        break;
      case cudaMemPoolAttrUsedMemCurrent:
        *static_cast<std::uint64_t*>(value) = pool->used();
        break;
      case cudaMemPoolAttrUsedMemHigh:
        *static_cast<std::uint64_t*>(value) = pool->max_used;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes_to_keep) {
  return api([&](Lock&) {
    if (pool == nullptr) return cudaErrorInvalidValue;
    pool->trim(bytes_to_keep);
    return cudaSuccess;
  });
}
}
