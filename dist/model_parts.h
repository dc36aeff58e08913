#pragma once

#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "io/safetensors.h"
#include "nn/arena.h"
#include "nn/parameter_shard.h"

/// The parts of a model that ranks divide between them, and the whole (docs/parallel.md). Files hold the
/// whole, so that any mesh can read what any other has written.
namespace ringtape {

/// Puts the parts of all ranks of `comm` together: the whole parameter, on the CPU of its rank 0; undefined
/// on the others.
Tensor gather_whole(const Tensor& part, const ParameterShard& shard, Communicator& comm);
/// The opposite: overwrites each rank's `part` with its part of rank 0's `whole`; elsewhere `whole` is not
/// used.
void scatter_whole(const Tensor& whole, const Tensor& part, const ParameterShard& shard, Communicator& comm);

/// Tensors of parameters, such as weights or moments, with the parameters' shapes and names; a name may have
/// words before it, as in "exp_avg.0.weight". Each part becomes the whole on rank 0 of `comm`, and undefined
/// on the other ranks. A tensor that is no parameter's part stays as it is.
std::vector<NamedTensor> gather_wholes(Module& model, const std::vector<NamedTensor>& parts,
                                       Communicator& comm);
/// The opposite, for the wholes that gather_wholes() has returned for `parts`.
void scatter_wholes(Module& model, const std::vector<NamedTensor>& wholes,
                    const std::vector<NamedTensor>& parts, Communicator& comm);

/// What the arena of a model divided over the ranks of `comm` needs for norms, and with `sequence`
/// parallelism for gradients.
ModelDivision division_over(const std::shared_ptr<Communicator>& comm, bool sequence = false);

}  // namespace ringtape
