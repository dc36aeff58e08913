#include <algorithm>
#include <cstring>
#include <memory>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/capture.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

/// Copies and fills. They synchronize with the host as described in "API synchronization behavior" of the
/// CUDA Runtime API reference.
namespace gpu_model {
namespace {

/// One side of a copy.
struct Side {
  bool is_device = false;
  bool is_pinned = false;
  bool is_in_pool = false;  ///< by cudaMallocAsync
};

/// False for device memory that is not all in one live allocation.
bool classify(const void* address, std::size_t bytes, Side& side) {
  side.is_device = memory_device(address) >= 0;
  if (side.is_device) {
    const Block* const block = live_block(address, bytes);
    side.is_in_pool = block != nullptr && block->history->is_in_pool();
    return block != nullptr;
  }
  side.is_pinned = state().pinned.find(address, bytes).second != nullptr;
  return true;
}

bool fits(cudaMemcpyKind kind, const Side& to, const Side& from) {
  switch (kind) {
    case cudaMemcpyDefault:
      return true;
    case cudaMemcpyHostToHost:
      return !to.is_device && !from.is_device;
    case cudaMemcpyHostToDevice:
      return to.is_device && !from.is_device;
    case cudaMemcpyDeviceToHost:
      return !to.is_device && from.is_device;
    case cudaMemcpyDeviceToDevice:
      return to.is_device && from.is_device;
  }
  return false;
}

cudaMemcpyKind direction_of(const Side& to, const Side& from) {
  if (to.is_device) return from.is_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return from.is_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

/// Waits for an operation of this device.
cudaError_t wait_for(Lock& lock, int device, const NodePtr& node) {
  ++state().host_waits;
  run_until(lock, node);
  host_has_waited_for(node->clock);
  return state().devices[static_cast<std::size_t>(device)]->sticky;
}

/// The number of bytes that are in both areas: "The memory areas may not overlap." (cudaMemcpy).
std::size_t overlap(const void* a, const void* b, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  const std::uintptr_t apart = std::max(first, second) - std::min(first, second);
  return apart < bytes ? bytes - apart : 0;
}

struct Request {
  void* to;
  const void* from;
  std::size_t bytes;
  cudaMemcpyKind kind;
  const char* name;
  const void* caller;
  bool is_synchronous = false;  ///< cudaMemcpy
  bool is_peer = false;         ///< cudaMemcpyPeerAsync
};

/// Whether a copy may use a pool's memory in a stream of `device`. "Stream Ordered Memory Allocator" of the
/// CUDA C++ Programming Guide: without cudaMemPoolSetAccess only the pool's device has access; "any async
/// memcpy involving memory from cudaMallocAsync should be done using the specified stream's context as the
/// calling thread's current context", which "is not necessary for cudaMemcpyPeerAsync".
bool reaches_pools(const Request& request, const Side& to, const Side& from, int device) {
  if (request.is_peer || !(to.is_in_pool || from.is_in_pool)) return true;
  const auto is_elsewhere = [device](const Side& side, const void* address) {
    return side.is_device && memory_device(address) != device;
  };
  return thread_state().device == device && !is_elsewhere(to, request.to) &&
         !is_elsewhere(from, request.from);
}

cudaError_t copy(Lock& lock, const Request& request, cudaStream_t handle) {
  const auto [to, from, bytes, kind, name, caller, is_synchronous, is_peer] = request;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;
  if (is_synchronous) {
    if (const cudaError_t error = forbid_in_captures()) return error;
  }
  Side target, source;
  if (!classify(to, bytes, target) || !classify(from, bytes, source) || !fits(kind, target, source)) {
    return cudaErrorInvalidValue;
  }
  const int device = stream->device;
  if (!reaches_pools(request, target, source, device)) return cudaErrorInvalidValue;
  const bool from_pageable = target.is_device && !source.is_device && !source.is_pinned;
  if (is_synchronous && from_pageable) {
    if (const cudaError_t error = forbid_while_capturing(*stream)) return error;
    wait_for_stream(lock, *stream);  // "a stream sync is performed before the copy is initiated"
  }
  if (const std::size_t common = overlap(to, from, bytes); common > 0) {
    report(std::string(name) + " (queued in " + place_of(caller) +
           "): its source and its target overlap in " + std::to_string(common) + " bytes");
  }
  Operation operation;
  operation.kind = Kind::copy;
  operation.name = name;
  operation.caller = caller;
  operation.bytes = bytes;
  operation.direction = direction_of(target, source);
  if (source.is_device || source.is_pinned) operation.reads = {{from, bytes}};
  if (target.is_device || target.is_pinned) operation.writes = {{to, bytes}};

  void* const write_to = target.is_pinned ? state().pinned.alias(to) : to;
  const void* read_from = source.is_pinned ? state().pinned.alias(from) : from;
  std::shared_ptr<char[]> staged;
  if (is_synchronous && from_pageable) {
    // The caller may overwrite its memory at once. Of cudaMemcpyAsync the reference says only that it "might
    // be synchronous with respect to host".
    staged = std::shared_ptr<char[]>(new char[bytes]);
    std::memcpy(staged.get(), from, bytes);
    read_from = staged.get();
  }
  operation.run = [write_to, read_from, bytes = bytes, staged] {
    std::memmove(write_to, read_from, bytes);
    return Progress::done;
  };
  NodePtr node;
  if (const cudaError_t error = queue(*stream, std::make_shared<const Operation>(std::move(operation)), node))
    return error;
  const bool to_pageable = !target.is_device && !target.is_pinned;
  const bool with_pinned = source.is_pinned || target.is_pinned;
  const bool between_hosts = !target.is_device && !source.is_device;
  if (node != nullptr && (to_pageable || between_hosts || (is_synchronous && with_pinned))) {
    return wait_for(lock, device, node);
  }
  return cudaSuccess;
}

cudaError_t fill(Lock& lock, void* address, int value, std::size_t bytes, cudaStream_t handle,
                 const char* name, const void* caller, bool is_synchronous) {
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  if (is_synchronous) {
    if (const cudaError_t error = forbid_in_captures()) return error;
  }
  Side target;
  if (address == nullptr || !classify(address, bytes, target) || !(target.is_device || target.is_pinned)) {
    return cudaErrorInvalidValue;
  }
  Operation operation;
  operation.kind = Kind::fill;
  operation.name = name;
  operation.caller = caller;
  operation.bytes = bytes;
  operation.writes = {{address, bytes}};
  void* const write_to = target.is_pinned ? state().pinned.alias(address) : address;
  operation.run = [write_to, value, bytes] {
    std::memset(write_to, value, bytes);
    return Progress::done;
  };
  const int device = stream->device;
  NodePtr node;
  if (const cudaError_t error = queue(*stream, std::make_shared<const Operation>(std::move(operation)), node))
    return error;
  return is_synchronous && target.is_pinned ? wait_for(lock, device, node) : cudaSuccess;
}

}  // namespace
}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) {
    return copy(lock, {to, from, bytes, kind, "cudaMemcpy", caller, true}, cudaStreamLegacy);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) {
    for (const int device : {to_device, from_device}) {
      if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    }
    if (memory_device(to) != to_device || memory_device(from) != from_device) return cudaErrorInvalidValue;
    return copy(lock, {to, from, bytes, cudaMemcpyDeviceToDevice, "cudaMemcpyPeerAsync", caller, false, true},
                stream);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) {
    return copy(lock, {to, from, bytes, kind, "cudaMemcpyAsync", caller}, stream);
  });
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) {
    return fill(lock, address, value, bytes, cudaStreamLegacy, "cudaMemset", caller, true);
  });
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock& lock) {
    return fill(lock, address, value, bytes, stream, "cudaMemsetAsync", caller, false);
  });
}
}
