#pragma once

#include <vector>

#include "dist/communicator.h"
#include "io/safetensors.h"
#include "nn/stages.h"

/// Tensors of a model's parameters, such as weights and moments: exchanged between the stages of a pipeline
/// and one rank that has the whole model's, for files. The stages' counterpart of dist/model_parts.h.
namespace ringtape {

/// The tensors of all stages, on the first rank of `comm`; its own on the others. `own` has for each of the
/// stage's parameters one tensor under the parameter's name, perhaps with words before it, as in
/// "exp_avg.0.weight"; other tensors are equal on all stages, except tensors of one dimension: these have an
/// element for each parameter in the arena's order, such as step counts.
std::vector<NamedTensor> gather_stages(const Stages& stages, const std::vector<NamedTensor>& own,
                                       Communicator& comm);
/// The opposite: overwrites `own` with their parts of the first rank's `all`, the tensors that
/// gather_stages() returned there.
void scatter_stages(const Stages& stages, const std::vector<NamedTensor>& all,
                    const std::vector<NamedTensor>& own, Communicator& comm);

}  // namespace ringtape
