#include "gpu_model/runtime/api.h"

namespace gpu_model {

ThreadState& thread_state() {
  static thread_local ThreadState of_thread;
  return of_thread;
}

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) thread_state().last_error = error;
  return error;
}

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define GPU_MODEL_ERROR(error, text) \
  { error, #error, text }
constexpr ErrorText kErrors[] = {
    GPU_MODEL_ERROR(cudaSuccess, "no error"),
    GPU_MODEL_ERROR(cudaErrorInvalidValue, "invalid argument"),
    GPU_MODEL_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    GPU_MODEL_ERROR(cudaErrorInitializationError, "initialization error"),
    GPU_MODEL_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    GPU_MODEL_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    GPU_MODEL_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    GPU_MODEL_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    GPU_MODEL_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    GPU_MODEL_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    GPU_MODEL_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    GPU_MODEL_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    GPU_MODEL_ERROR(cudaErrorNotReady, "device not ready"),
    GPU_MODEL_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    GPU_MODEL_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    GPU_MODEL_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    GPU_MODEL_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    GPU_MODEL_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    GPU_MODEL_ERROR(cudaErrorNotSupported, "operation not supported"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureInvalidated,
                    "operation failed due to a previous error during capture"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureMerge,
                    "operation would result in a merge of separate capture sequences"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureIsolation,
                    "dependency created on uncaptured work in another stream"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureImplicit,
                    "operation would make the legacy stream depend on a capturing blocking stream"),
    GPU_MODEL_ERROR(cudaErrorCapturedEvent,
                    "operation not permitted on an event last recorded in a capturing stream"),
    GPU_MODEL_ERROR(cudaErrorStreamCaptureWrongThread,
                    "attempt to terminate a thread-local capture sequence from another thread"),
    GPU_MODEL_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef GPU_MODEL_ERROR

const ErrorText* find(cudaError_t error) {
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

/// The sticky error of the thread's device.
cudaError_t sticky() {
  const Lock lock(state().mutex);
  const auto device = static_cast<std::size_t>(thread_state().device);
  return device < state().devices.size() ? state().devices[device]->sticky : cudaSuccess;
}

}  // namespace
}  // namespace gpu_model

using namespace gpu_model;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  thread_state().last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t of_device = sticky();
  return of_device != cudaSuccess ? of_device : thread_state().last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const entry = find(error);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const entry = find(error);
  return entry == nullptr ? "unrecognized error code" : entry->text;
}
}
