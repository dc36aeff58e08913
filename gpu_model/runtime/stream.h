#pragma once

#include "gpu_model/runtime/state.h"

namespace gpu_model {

/// The stream of a handle, with its device's context created; null for an invalid handle.
CUstream_st* find_stream(cudaStream_t handle);
/// Queues the operation in the stream, also after `wait_for`, or adds it to the graph that the stream is
/// capturing; `node` is then null.
cudaError_t queue(CUstream_st& stream, std::shared_ptr<const Operation> operation, NodePtr& node,
                  const std::vector<NodePtr>& wait_for = {});
/// The last operations that a wait for the stream covers; none of them is null.
std::vector<NodePtr> work_of(const CUstream_st& stream);
/// Waits for all work queued in the stream.
void wait_for_stream(Lock& lock, CUstream_st& stream);
/// Waits for all streams of a device.
void wait_for_device(Lock& lock, int device);
/// Calls body(stream) for every stream of the device that has been used, also destroyed ones with work that
/// the host has not waited for.
template <class Body>
void for_each_stream(int device, const Body& body) {
  Device& of = *state().devices[static_cast<std::size_t>(device)];
  if (of.legacy) body(*of.legacy);
  for (auto& [thread, stream] : of.per_thread) body(*stream);
  for (auto& [handle, stream] : state().streams) {
    if (stream->device == device) body(*stream);
  }
  for (auto& stream : of.destroyed) body(*stream);
}
/// Returns reserved memory of the device to the system, down to the pool's release threshold. Called at every
/// wait of the host.
void release_unused_memory(int device);

/// True for the allocation, or stream, that fail_allocation() selected.
bool fails_on_request();
/// The device whose memory contains the address, -1 for none.
int memory_device(const void* address);
/// The allocation at the address, or the last one there; null without any.
std::shared_ptr<BlockHistory> history_at(const void* address);
/// The live allocation that contains the bytes, null if there is none.
Block* live_block(const void* address, std::size_t bytes);

}  // namespace gpu_model
