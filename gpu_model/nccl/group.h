#pragma once

#include <nccl.h>

#include <functional>
#include <memory>

#include "gpu_model/nccl/call.h"

/// Calls between ncclGroupStart() and ncclGroupEnd(), which are carried out at the end of the outermost
/// group.
namespace gpu_model::nccl {

class Communicator;

/// Carries the call out, or keeps it for the end of the group.
ncclResult_t queue_call(const std::shared_ptr<Communicator>& comm, const Call& call, cudaStream_t stream,
                        const void* caller);
/// The same for a call that waits for other ranks; those of a group wait at the same time.
ncclResult_t wait_in_group(const std::function<ncclResult_t()>& call);
/// A call in a group has failed, so that the group does.
ncclResult_t fail_group(ncclResult_t error);

}  // namespace gpu_model::nccl
