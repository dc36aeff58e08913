#pragma once

#include <memory>
#include <optional>

#include "dist/communicator.h"
#include "dist/rank_environment.h"
#include "dist/slow_link.h"

namespace ringtape {

/// The communicator of all ranks of this run, for tensors on `device`: a SelfCommunicator for a single rank,
/// MPI's for ranks on CPUs, NCCL's for ranks on GPUs. Every rank must call it; `timeout` is the timeout of
/// each operation, including this one. `slow_link` delays the messages between several ranks on CPUs. Throws
/// Error in a build without the required library, for several ranks on CPUs that no MPI launcher has started,
/// if MPI and the launcher disagree about the rank or the number of ranks, and for a slow link with a GPU.
///
/// Declare it inside the `try`, so that it is destroyed before errors are caught: a communicator that is
/// destroyed while an exception unwinds the stack does not wait for the other ranks.
std::shared_ptr<Communicator> connect(const RankEnvironment& env, Device device,
                                      Seconds timeout = Seconds(60),
                                      const std::optional<SlowLink>& slow_link = {});

}  // namespace ringtape
