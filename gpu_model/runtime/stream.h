#pragma once

#include "gpu_model/runtime/state.h"

namespace gpu_model {

/// The stream of a handle, with its device's context opened; null where there is none.
CUstream_st* find_stream(cudaStream_t handle);
/// Queues the operation in the stream, behind `wait_for` too, or adds it to the graph that the stream is
/// capturing; `node` is then null.
cudaError_t queue(CUstream_st& stream, std::shared_ptr<const Operation> operation, NodePtr& node,
                  const std::vector<NodePtr>& wait_for = {});
/// Waits for all that the stream has queued.
void wait_for_stream(Lock& lock, CUstream_st& stream);
/// Waits for all streams of a device.
void wait_for_device(Lock& lock, int device);
/// Calls body(stream) for every stream of the device that has been used.
template <class Body>
void for_each_stream(int device, const Body& body) {
  Device& of = *state().devices[static_cast<std::size_t>(device)];
  if (of.legacy) body(*of.legacy);
  for (auto& [thread, stream] : of.per_thread) body(*stream);
  for (auto& [handle, stream] : state().streams) {
    if (stream->device == device) body(*stream);
  }
}
/// Gives reserved memory of the device back, down to the pool's release threshold: at every wait of the host.
void release_unused_memory(int device);

/// The device whose memory the address is in, -1 for none.
int memory_device(const void* address);
/// The allocation that the bytes lie in, null where they do not lie in one that is live.
Block* live_block(const void* address, std::size_t bytes);

}  // namespace gpu_model
