#pragma once

#include "gpu_model/runtime/host_function.h"
#include "gpu_model/runtime/state.h"

/// The common part of the runtime's functions: locks the mutex, creates the current device's context ("the
/// runtime will implicitly use device 0 and self-initialize as needed to process other runtime API
/// requests"), reports sticky errors, records the last error, runs the operations that the schedule runs at a
/// call, and leaves device memory closed.
namespace gpu_model {

struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  const Operation* host_function = nullptr;  ///< that this thread is calling; null in all other threads
};
ThreadState& thread_state();

/// Records an error as the thread's last and returns it. That includes cudaErrorNotReady, of which the
/// reference says only that it is not an error: a program must work whether it is recorded or not.
cudaError_t note(cudaError_t error);

/// Runs body(lock), which returns a cudaError_t. An error that is sticky on the current device comes first.
template <class Body>
cudaError_t api(const Body& body) {
  Lock lock(state().mutex);
  if (const cudaError_t error = forbid_in_host_function()) return note(error);
  ++state().calls;
  state().pinned.close_pages();
  const auto sticky = [] {
    const auto device = static_cast<std::size_t>(thread_state().device);
    return device < state().devices.size() ? state().devices[device]->sticky : cudaSuccess;
  };
  if (static_cast<std::size_t>(thread_state().device) < state().devices.size()) {
    open_device(thread_state().device);
  }
  cudaError_t error = sticky();
  if (error == cudaSuccess) error = body(lock);
  run_at_call();
  close_device_memory();
  if (error == cudaSuccess) error = sticky();
  return note(error);
}

/// The same for functions that query devices and need no context.
template <class Body>
cudaError_t query_api(const Body& body) {
  Lock lock(state().mutex);
  if (const cudaError_t error = forbid_in_host_function()) return note(error);
  return note(body());
}

}  // namespace gpu_model

/// The return address of the calling function.
#define GPU_MODEL_CALLER __builtin_extract_return_addr(__builtin_return_address(0))
