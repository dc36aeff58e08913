#pragma once

#include <memory>
#include <optional>

#include "dist/communicator.h"
#include "dist/launch.h"
#include "dist/slow_link.h"

namespace ringtape {

/// The communicator of all ranks of this run, for tensors on `device`: one for a single rank, MPI's for ranks
/// on CPUs, NCCL's for ranks on GPUs. Every rank has to call it; `timeout` is that of each operation, this
/// one included. `slow_link` holds back what several ranks on CPUs send each other. Throws Error in a build
/// without the library that is needed, where MPI knows of another number of ranks than the launcher, and for
/// a slow link between GPUs.
///
/// Keep it where it is destroyed before errors are caught (inside the `try`): when it goes while an exception
/// unwinds the stack, it does not wait for the other ranks.
std::shared_ptr<Communicator> connect(const Launch& launch, Device device, Seconds timeout = Seconds(60),
                                      const std::optional<SlowLink>& slow_link = {});

}  // namespace ringtape
