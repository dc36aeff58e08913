#pragma once

#include <nccl.h>

#include <string>

/// How ranks find each other: at an abstract Unix socket, which has a name but no file, so that it ends with
/// its process.
namespace gpu_model::nccl {

/// The name of the socket.
std::string place_of(const ncclUniqueId& id);

/// Waits until `ranks` ranks have connected at `place`; `file` is then the file of their shared segment. An
/// error of one rank is returned on all that have connected: ncclInvalidUsage (a rank twice, two ranks on one
/// GPU, different numbers of ranks), ncclRemoteError (a rank has ended), ncclSystemError.
ncclResult_t connect(const std::string& place, int ranks, int rank, int device, int& file);

}  // namespace gpu_model::nccl
