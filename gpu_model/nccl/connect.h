#pragma once

#include <nccl.h>

#include <string>

/// How ranks find each other: at a socket of the system that has a name but no file (an abstract one), so
/// that it is gone with the process that has it.
namespace gpu_model::nccl {

/// The place where the ranks meet.
std::string place_of(const ncclUniqueId& id);

/// Waits until `ranks` ranks have come to `place`; `file` is then that of the segment they share. Errors that
/// one finds are returned on all: ncclInvalidArgument, ncclInvalidUsage (a rank twice, two ranks on one GPU,
/// different numbers of ranks), ncclRemoteError, ncclSystemError.
ncclResult_t connect(const std::string& place, int ranks, int rank, int device, int& file);

}  // namespace gpu_model::nccl
