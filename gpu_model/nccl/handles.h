#pragma once

#include <nccl.h>

#include <memory>

namespace gpu_model::nccl {

class CommRank;

ncclComm_t make_handle(std::shared_ptr<CommRank> comm);
/// The communicator of a handle, null for an unknown or destroyed handle.
std::shared_ptr<CommRank> find(const ncclComm* handle);
/// Destroys the handle; returns its communicator, null for an unknown or destroyed handle.
std::shared_ptr<CommRank> take(ncclComm_t handle);

}  // namespace gpu_model::nccl
