#pragma once

#include <vector>

#include "dist/communicator.h"
#include "io/safetensors.h"
#include "optim/optimizer.h"

/// The optimizer's state as checkpoints hold it: whole, and cut by parameters, such as "exp_avg.0.weight". So
/// it does not depend on how an arena is laid out, on the number of ranks, or on the stage of ZeRO.
namespace ringtape {

/// The state on rank 0. Of a sharded arena these are tensors on the host, to which every rank sends its
/// slices: all ranks have to call it, and the others get the step counts alone. Of a plain one they share the
/// optimizer's memory, on every rank.
std::vector<NamedTensor> gather_optimizer_state(const Optimizer& optimizer, Communicator& comm);

/// Gives the ranks the state that rank 0 has in `whole`, tensors that gather_optimizer_state() returned there
/// and that have been loaded into since. All ranks call it.
void scatter_optimizer_state(const Optimizer& optimizer, Communicator& comm,
                             const std::vector<NamedTensor>& whole);

}  // namespace ringtape
