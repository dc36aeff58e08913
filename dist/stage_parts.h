#pragma once

#include <vector>

#include "dist/communicator.h"
#include "io/safetensors.h"
#include "nn/stages.h"

/// The tensors of a model's parameters, such as weights and moments, from the stages of a pipeline to one
/// rank that has those of the whole model, and back, for files. The stages' counterpart of
/// dist/model_parts.h.
namespace ringtape {

/// On rank 0 of `comm` the tensors of all stages, on the CPU except for its own; on the other ranks `own`.
/// `own` has one tensor for each of the stage's parameters, under the parameter's name, which may have a
/// prefix, as in "exp_avg.0.weight". Of the other tensors, those of one dimension have an element for each
/// parameter in the arena's order, such as step counts; the rest is equal on all stages. All ranks must call
/// it.
std::vector<NamedTensor> gather_stages(const Stages& stages, const std::vector<NamedTensor>& own,
                                       Communicator& comm);
/// The opposite: overwrites each rank's `own` with its part of `all` on rank 0, the tensors that
/// gather_stages() returned there.
void scatter_stages(const Stages& stages, const std::vector<NamedTensor>& all,
                    const std::vector<NamedTensor>& own, Communicator& comm);

}  // namespace ringtape
