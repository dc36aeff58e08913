#include <algorithm>

#include "gpu_model/runtime/api.h"
#include "gpu_model/runtime/capture.h"
#include "gpu_model/runtime/stream.h"

namespace gpu_model {
namespace {

CUevent_st* find_event(cudaEvent_t handle) {
  const auto it = state().events.find(handle);
  return it == state().events.end() ? nullptr : it->second.get();
}

cudaError_t create(cudaEvent_t* event, unsigned flags, const void* caller) {
  if (event == nullptr || (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0)
    return cudaErrorInvalidValue;
  if (device_count() == 0) return cudaErrorNoDevice;
  auto made = std::make_unique<CUevent_st>();
  made->device = open_device(thread_state().device).index;
  made->flags = flags;
  made->caller = caller;
  *event = made.get();
  state().events.emplace(made.get(), std::move(made));
  return cudaSuccess;
}

Operation order_only(Kind kind, const char* name, const void* caller) {
  Operation operation;
  operation.kind = kind;
  operation.name = name;
  operation.caller = caller;
  return operation;
}

/// For a host call on an event: an error while the event belongs to a capture.
cudaError_t forbid_captured(const CUevent_st& event) {
  if (event.capture == nullptr) return forbid_in_captures();
  event.capture->invalidated = true;
  return cudaErrorCapturedEvent;
}

/// Adds a stream that waits for a capture's event to the capture.
cudaError_t join_capture(CUstream_st& stream, const CUevent_st& event) {
  if (stream.capture != nullptr && stream.capture != event.capture) {
    stream.capture->invalidated = event.capture->invalidated = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (stream.is_legacy) {
    event.capture->invalidated = true;
    return cudaErrorStreamCaptureImplicit;
  }
  stream.capture = event.capture;
  for (const std::size_t entry : event.captured) {
    if (std::count(stream.captured_last.begin(), stream.captured_last.end(), entry) == 0) {
      stream.captured_last.push_back(entry);
    }
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return create(event, cudaEventDefault, caller); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) { return create(event, flags, caller); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api(
      [&](Lock&) { return state().events.erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) {
    CUevent_st* const event = find_event(handle);
    CUstream_st* const stream = find_stream(stream_handle);
    if (event == nullptr || stream == nullptr || event->device != stream->device)
      return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      if (stream->capture->invalidated) return cudaErrorStreamCaptureInvalidated;
      event->capture = stream->capture;
      event->captured = stream->captured_last;
      return cudaSuccess;
    }
    event->capture = nullptr;
    return queue(*stream,
                 std::make_shared<const Operation>(order_only(Kind::event, "cudaEventRecord", caller)),
                 event->node);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  const void* const caller = GPU_MODEL_CALLER;
  return api([&](Lock&) {
    CUevent_st* const event = find_event(handle);
    CUstream_st* const stream = find_stream(stream_handle);
    if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (event->capture != nullptr) return join_capture(*stream, *event);
    if (stream->capture != nullptr && event->node != nullptr) {
      stream->capture->invalidated = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (event->node == nullptr) return cudaSuccess;
    NodePtr node;
    return queue(*stream,
                 std::make_shared<const Operation>(order_only(Kind::wait, "cudaStreamWaitEvent", caller)),
                 node, {event->node});
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return api([&](Lock& lock) {
    CUevent_st* const event = find_event(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = forbid_captured(*event)) return error;
    const NodePtr node = event->node;
    const int device = event->device;
    ++state().host_waits;
    if (node == nullptr) return cudaSuccess;
    run_until(lock, node);
    host_has_waited_for(node->clock);
    release_unused_memory(device);
    return state().devices[static_cast<std::size_t>(device)]->sticky;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return api([&](Lock&) {
    CUevent_st* const event = find_event(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = forbid_captured(*event)) return error;
    const NodePtr node = event->node;
    const int device = event->device;
    if (node == nullptr) return cudaSuccess;
    if (!query({node})) return cudaErrorNotReady;
    host_has_waited_for(node->clock);
    return state().devices[static_cast<std::size_t>(device)]->sticky;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  return api([&](Lock&) {
    const CUevent_st* const start = find_event(start_handle);
    const CUevent_st* const end = find_event(end_handle);
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    if (start == nullptr || end == nullptr || start->device != end->device)
      return cudaErrorInvalidResourceHandle;
    if (start->node == nullptr || end->node == nullptr) return cudaErrorInvalidResourceHandle;
    if (((start->flags | end->flags) & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
    if (!start->node->done || !end->node->done) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(static_cast<double>(end->node->end - start->node->end) * 1e-6);
    return cudaSuccess;
  });
}
}
