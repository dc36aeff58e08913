#pragma once

#include <nccl.h>

#include <functional>
#include <memory>

#include "gpu_model/nccl/call.h"

/// Calls between ncclGroupStart() and ncclGroupEnd(), which are executed at the end of the outermost group.
namespace gpu_model::nccl {

class CommRank;

/// Queues the call, or stores it for the end of the group.
ncclResult_t queue_call(const std::shared_ptr<CommRank>& comm, const NcclCall& call, cudaStream_t stream,
                        const void* caller);
/// The same for a call that waits for other ranks, such as ncclCommInitRank(); the calls of a group wait
/// concurrently.
ncclResult_t wait_in_group(const std::function<ncclResult_t()>& call);
/// Makes the group fail, because a call in it has failed.
ncclResult_t fail_group(ncclResult_t error);

}  // namespace gpu_model::nccl
