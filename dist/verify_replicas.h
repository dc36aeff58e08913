#pragma once

#include "dist/mesh.h"
#include "dist/pipeline.h"
#include "nn/module.h"

namespace ringtape {

/// Compares the parameters that must be equal on several ranks, bit by bit (by their CRC-32): all parameters
/// over the ranks that have the same part of the model, and undivided parameters over the ranks that divide
/// it; with a `pipeline`, also the parameters that two stages have. Throws Error, on all ranks of a line of
/// the mesh where one differs, that names the first; `when` is "after step 3". All ranks must call it.
void verify_replicas(Module& model, const Mesh& mesh, const std::string& when,
                     const Pipeline* pipeline = nullptr);

}  // namespace ringtape
