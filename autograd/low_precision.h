#pragma once

#include "core/tensor.h"

namespace ringtape {

/// What an operation on inputs of `dtype` computes with where it is given `parameter`: the 16-bit copy that a
/// ParameterArena keeps of it, where that is of this dtype; else the tensor itself. The operation lists the
/// parameter among its node's inputs, so that the gradient goes to the f32 values, and the copy among what it
/// saves.
///
/// The optimizer's step writes values and copy together. After any other change of the values (weights
/// loaded, received from another rank) the copy is rounded anew here, at its first use: their versions differ
/// then.
///
/// Throws Error that begins with `operation` where `dtype` is the parameter's own although its arena still
/// computes in 16 bits: the whole model would compute in f32 without a word.
Tensor in_dtype(const Tensor& parameter, DType dtype, const char* operation = "in_dtype");

}  // namespace ringtape
