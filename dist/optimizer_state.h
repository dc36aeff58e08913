#pragma once

#include <vector>

#include "dist/communicator.h"
#include "io/safetensors.h"
#include "optim/optimizer.h"

/// The optimizer state and the weights as checkpoints hold them: unsharded, with a tensor for each parameter,
/// such as "exp_avg.0.weight". So they do not depend on the arena's layout, on the number of ranks, or on the
/// ZeRO stage.
namespace ringtape {

/// The state on rank 0. For a sharded arena these are tensors on the host, gathered from the slices of all
/// ranks: all ranks must call it, and the others get only the step counts. For an unsharded arena they share
/// the optimizer's memory, on every rank.
std::vector<NamedTensor> gather_optimizer_state(const Optimizer& optimizer, Communicator& comm);

/// The weights of `model`, whose arena this is, as nn/model_file.h names them. In ZeRO stage 3 the weights on
/// rank 0 are on the host, gathered from the slices of all ranks, and the weights on the others are undefined
/// unless they are frozen. All ranks must call it.
std::vector<NamedTensor> gather_weights(Module& model, const ParameterArena& arena, Communicator& comm);

/// Distributes the state that rank 0 has in `whole`: the tensors that gather_optimizer_state() returned
/// there, after a checkpoint was loaded into them. All ranks must call it.
void scatter_optimizer_state(const Optimizer& optimizer, Communicator& comm,
                             const std::vector<NamedTensor>& whole);

}  // namespace ringtape
