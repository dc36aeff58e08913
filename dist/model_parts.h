#pragma once

#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "io/safetensors.h"
#include "nn/arena.h"
#include "nn/parameter_shard.h"

/// From the parts of a model that ranks divide between them to the whole, and back (docs/parallel.md). Files
/// hold the whole, so that every mesh can read the files of any other.
namespace ringtape {

/// Puts the parts of all ranks of `comm` together: the whole parameter, on the CPU, on rank 0 of `comm`;
/// undefined on the others. All ranks must call it.
Tensor gather_whole(const Tensor& part, const ParameterShard& shard, Communicator& comm);
/// The opposite: overwrites each rank's `part` with its part of rank 0's `whole`, which is on the CPU; other
/// ranks' `whole` is not used.
void scatter_whole(const Tensor& whole, const Tensor& part, const ParameterShard& shard, Communicator& comm);

/// The same for tensors with the shapes and names of the model's parameters, such as weights or moments; a
/// name may have a prefix, as in "exp_avg.0.weight". Each part becomes the whole on rank 0 of `comm`, and
/// undefined on the other ranks. A tensor that is not a part stays as it is.
std::vector<NamedTensor> gather_wholes(Module& model, const std::vector<NamedTensor>& parts,
                                       Communicator& comm);
/// The opposite, for the `wholes` that gather_wholes() returned for `parts`. A tensor that is not a part gets
/// the value that it has on rank 0.
void scatter_wholes(Module& model, const std::vector<NamedTensor>& wholes,
                    const std::vector<NamedTensor>& parts, Communicator& comm);

/// For ParameterArena::set_division(): the communication over `comm`, whose ranks divide the model, that its
/// arena needs for norms, and with `sequence` parallelism for gradients.
ModelDivision division_over(const std::shared_ptr<Communicator>& comm, bool sequence = false);

}  // namespace ringtape
