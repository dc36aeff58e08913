#include "gpu_model/runtime/stream.h"

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
  Order order{wait_for, {}};
  order.before.push_back(stream.last);
  if (stream.is_legacy) {
    bool captures = false;
    for_each_stream(stream.device, [&](const CUstream_st& other) {
      if (!other.is_blocking) return;
      order.before.push_back(other.last);
      if (other.capture != nullptr) other.capture->invalidated = captures = true;
    });
    if (captures) return cudaErrorStreamCaptureImplicit;
  } else if (stream.is_blocking && device.legacy != nullptr) {
    order.before.push_back(device.legacy->last);
  }
  node = add_node(std::move(operation), stream.device, stream.number, {stream.lane, ++stream.tick},
                  std::move(order));
  stream.last = node;
  return cudaSuccess;
}

void wait_for_stream(Lock& lock, CUstream_st& stream) {
  ++state().host_waits;
  const NodePtr last = stream.last;
  if (last != nullptr) {
    run_until(lock, last);
    host_has_waited_for(last->clock);
  }
  release_unused_memory(stream.device);
}

void wait_for_device(Lock& lock, int device) {
  ++state().host_waits;
  std::vector<NodePtr> last;
  for_each_stream(device, [&](const CUstream_st& stream) {
    if (stream.last != nullptr) last.push_back(stream.last);
  });
  const NodePtr& left = state().devices[static_cast<std::size_t>(device)]->left_by_destroyed;
  if (left != nullptr) last.push_back(left);
  for (const NodePtr& node : last) {
    run_until(lock, node);
    host_has_waited_for(node->clock);
  }
  release_unused_memory(device);
}

void release_unused_memory(int device) {
  CUmemPoolHandle_st* const pool = state().devices[static_cast<std::size_t>(device)]->pool.get();
  if (pool != nullptr && pool->reserved() > pool->release_threshold) pool->trim(pool->release_threshold);
}

namespace {

cudaError_t create(cudaStream_t* stream, unsigned flags, const void* caller) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  if (device_count() == 0) return cudaErrorNoDevice;
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
    if (it->second->capture != nullptr) leave_capture(*it->second);
    // Kept for cudaDeviceSynchronize(), as a stream without a handle.
    Device& device = *state().devices[static_cast<std::size_t>(it->second->device)];
    NodePtr& left = device.left_by_destroyed;
    if (it->second->last != nullptr && !it->second->last->done) {
      Operation marker;
      marker.kind = Kind::marker;
      marker.name = "cudaStreamDestroy";
      left = add_node(std::make_shared<const Operation>(std::move(marker)), device.index, -1,
                      {device.destroyed_lane, ++device.destroyed_tick}, {{left, it->second->last}, {}});
    }
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
    wait_for_stream(lock, *stream);
    return state().devices[static_cast<std::size_t>(stream->device)]->sticky;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api([&](Lock&) {
    CUstream_st* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = forbid_while_capturing(*stream)) return error;
    if (const cudaError_t error = forbid_in_captures()) return error;
    if (!query(stream->last)) return cudaErrorNotReady;
    if (stream->last != nullptr) host_has_waited_for(stream->last->clock);
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

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* user_data) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) {
    CUstream_st* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (function == nullptr) return cudaErrorInvalidValue;
    Operation operation;
    operation.kind = Kind::host_function;
    operation.name = "cudaLaunchHostFunc";
    operation.caller = caller;
    operation.run = [function, user_data] {
      close_device_memory();  // host code
      function(user_data);
      return Progress::done;
    };
    NodePtr node;
    return queue(*stream, std::make_shared<const Operation>(std::move(operation)), node);
  });
}
}
