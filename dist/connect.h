#pragma once

#include <memory>

#include "dist/communicator.h"
#include "dist/launch.h"

namespace ringtape {

/// The communicator of all ranks of this run, for tensors on `device`: one for a single rank, MPI's for ranks
/// on CPUs, NCCL's for ranks on GPUs. Every rank has to call it; `timeout` is that of each operation, this
/// one included. Throws Error in a build without the library that is needed, and where MPI knows of another
/// number of ranks than the launcher.
///
/// Keep it where it is destroyed before errors are caught (inside the `try`): when it goes while an exception
/// unwinds the stack, it does not wait for the other ranks.
std::shared_ptr<Communicator> connect(const Launch& launch, Device device, Seconds timeout = Seconds(60));

}  // namespace ringtape
