#pragma once

#include "dist/communicator.h"
#include "nn/module.h"

namespace ringtape {

/// Throws the same Error on every rank if the ranks' models differ in the parameters' names, shapes, dtypes,
/// order, or in the set of frozen parameters. The Error names the first difference between rank 0 and the
/// first rank that differs from it. The ranks compare checksums, and send the descriptions only if these
/// differ.
void verify_parameters(Module& model, Communicator& comm);

}  // namespace ringtape
