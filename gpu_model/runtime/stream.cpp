#include "gpu_model/runtime/stream.h"

#include <algorithm>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/capture.h"

namespace gpu_model {
namespace {

std::unique_ptr<CUstream_st> make_stream(int device, int number, bool is_blocking) {
  auto stream = std::make_unique<CUstream_st>();
  stream->number = number;
  stream->device = device;
  stream->is_blocking = is_blocking;
  stream->lane = state().lanes++;
  return stream;
}

CUstream_st* legacy_stream(Device& device) {
  if (device.legacy == nullptr) {
    device.legacy = make_stream(device.index, 0, false);
    device.legacy->is_legacy = true;
  }
  return device.legacy.get();
}

CUstream_st* stream_of_thread(Device& device) {
  auto& stream = device.per_thread[std::this_thread::get_id()];
  if (stream == nullptr) stream = make_stream(device.index, ++state().stream_numbers, true);
  return stream.get();
}

}  // namespace

CUstream_st* find_stream(cudaStream_t handle) {
  if (handle != nullptr && handle != cudaStreamLegacy && handle != cudaStreamPerThread) {
    const auto it = state().streams.find(handle);
    return it == state().streams.end() ? nullptr : it->second.get();
  }
  if (thread_state().device >= static_cast<int>(state().devices.size())) return nullptr;
  Device& device = open_device(thread_state().device);
  return handle == cudaStreamPerThread ? stream_of_thread(device) : legacy_stream(device);
}

cudaError_t queue(CUstream_st& stream, std::shared_ptr<const Operation> operation, NodePtr& node,
                  const std::vector<NodePtr>& wait_for) {
  node = nullptr;
  Device& device = *state().devices[static_cast<std::size_t>(stream.device)];
  if (device.sticky != cudaSuccess) return device.sticky;
  if (stream.capture != nullptr) return add_to_capture(stream, std::move(operation));
  if (const cudaError_t error = forbid_while_capturing(stream)) return error;
  Order order{wait_for, {}};
  for (NodePtr& earlier : work_of(stream)) order.before.push_back(std::move(earlier));
  if (stream.is_blocking && device.legacy != nullptr) order.before.push_back(device.legacy->last);
  node = add_node(std::move(operation), stream.device, stream.number, {stream.lane, ++stream.tick},
                  std::move(order));
  stream.last = node;
  return cudaSuccess;
}

// "Stream synchronization behavior": an action in the legacy default stream "first waits on all blocking
// streams".
std::vector<NodePtr> work_of(const CUstream_st& stream) {
  std::vector<NodePtr> work;
  if (stream.last != nullptr) work.push_back(stream.last);
  if (stream.is_legacy) {
    for_each_stream(stream.device, [&](const CUstream_st& other) {
      if (other.is_blocking && other.last != nullptr) work.push_back(other.last);
    });
  }
  return work;
}

namespace {

void wait_for(Lock& lock, int device, std::vector<NodePtr> work) {
  ++state().host_waits;
  std::sort(work.begin(), work.end(), [](const NodePtr& a, const NodePtr& b) { return a->id < b->id; });
  for (const NodePtr& node : work) {
    run_until(lock, node);
    host_has_waited_for(node->clock);
  }
  release_unused_memory(device);
}

}  // namespace

void wait_for_stream(Lock& lock, CUstream_st& stream) {
  wait_for(lock, stream.device, work_of(stream));
}

void wait_for_device(Lock& lock, int device) {
  std::vector<NodePtr> work;
  for_each_stream(device, [&](const CUstream_st& stream) {
    if (stream.last != nullptr) work.push_back(stream.last);
  });
  wait_for(lock, device, std::move(work));
}

void release_unused_memory(int device) {
  CUmemPoolHandle_st* const pool = state().devices[static_cast<std::size_t>(device)]->pool.get();
  if (pool != nullptr && pool->reserved() > pool->release_threshold) pool->trim(pool->release_threshold);
}

namespace {

cudaError_t create(cudaStream_t* stream, unsigned flags, const void* caller) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  if (device_count() == 0) return cudaErrorNoDevice;
  if (fails_on_request()) return cudaErrorMemoryAllocation;
  const Device& device = open_device(thread_state().device);
  auto made = make_stream(device.index, ++state().stream_numbers, flags == cudaStreamDefault);
  made->caller = caller;
  *stream = made.get();
  state().streams.emplace(made.get(), std::move(made));
  return cudaSuccess;
}

}  // namespace
}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return create(stream, cudaStreamDefault, caller); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return create(stream, flags, caller); });
}

/// Queued work continues; the handle becomes invalid.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api([&](Lock&) {
    const auto it = state().streams.find(handle);
    if (it == state().streams.end()) return cudaErrorInvalidResourceHandle;
    CUstream_st& stream = *it->second;
    if (stream.capture != nullptr) leave_capture(stream);
    // cudaDeviceSynchronize() and the legacy default stream still wait for its work.
    auto& destroyed = state().devices[static_cast<std::size_t>(stream.device)]->destroyed;
    destroyed.push_back(std::move(it->second));
    std::erase_if(destroyed,
                  [](const auto& of) { return of->last == nullptr || state().host.knows(of->last->stamp); });
    state().streams.erase(it);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return api([&](Lock& lock) {
    CUstream_st* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = forbid_while_capturing(*stream)) return error;
    if (const cudaError_t error = forbid_in_captures()) return error;
    const int device = stream->device;
    wait_for_stream(lock, *stream);
    return state().devices[static_cast<std::size_t>(device)]->sticky;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api([&](Lock&) {
    CUstream_st* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = forbid_while_capturing(*stream)) return error;
    if (const cudaError_t error = forbid_in_captures()) return error;
    const std::vector<NodePtr> work = work_of(*stream);
    if (!query(work)) return cudaErrorNotReady;
    for (const NodePtr& node : work) host_has_waited_for(node->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api([&](Lock& lock) {
    if (device_count() == 0) return cudaErrorNoDevice;
    const Device& device = open_device(thread_state().device);
    cudaError_t error = forbid_in_captures();
    for_each_stream(device.index, [&](const CUstream_st& stream) {
      if (error == cudaSuccess) error = forbid_while_capturing(stream);
    });
    if (error != cudaSuccess) return error;
    wait_for_device(lock, device.index);
    return cudaSuccess;
  });
}
}
