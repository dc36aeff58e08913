#pragma once

#include "dist/communicator.h"
#include "nn/module.h"

namespace ringtape {

/// Throws Error, on every rank the same, where the ranks' models differ in the parameters' names, shapes,
/// dtypes, order, or in which of them are frozen. It names the first difference between rank 0 and the first
/// rank that differs from it. Hashes are compared; the texts themselves are sent only where they differ.
void verify_parameters(Module& model, Communicator& comm);

}  // namespace ringtape
