#pragma once

#include "dist/mesh.h"
#include "dist/pipeline.h"
#include "nn/arena.h"
#include "nn/module.h"

namespace ringtape {

/// The values of a parameter that this rank has between two updates: all of them, or in ZeRO stage 3, for a
/// trained parameter, the values in this rank's slice of the unit, [elements]; undefined if there are none.
/// `arena`: the model's; null for none.
Tensor own_values(const Tensor& parameter, const ParameterArena* arena);

/// Compares the parameters that must be equal on several ranks, bit by bit (by their CRC-32): all parameters
/// over the ranks that have the same part of the model, and undivided parameters over the ranks that divide
/// it; with a `pipeline`, also the parameters that two stages have. `arena`: the model's; null for none. In
/// ZeRO stage 3 ranks with the same part of the model have different slices, which are compared only over the
/// tensor ranks and stages. Throws Error on all ranks of a group in which a rank differs; it names the first
/// parameter that differs. `when` is for the message, such as "after step 3". All ranks must call it.
void verify_replicas(Module& model, const Mesh& mesh, const std::string& when,
                     const Pipeline* pipeline = nullptr, const ParameterArena* arena = nullptr);

}  // namespace ringtape
