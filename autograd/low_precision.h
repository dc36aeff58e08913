#pragma once

#include "core/tensor.h"

namespace ringtape {

/// The tensor that an operation on inputs of `dtype` uses for `parameter`: its 16-bit copy in a
/// ParameterArena, if that has this dtype; else the parameter itself. The operation lists the parameter among
/// its node's inputs, so that the gradient goes to the master weights, and the copy among the saved tensors.
///
/// The optimizer's step writes values and copy together. After any other change of the values (weights
/// loaded, received from another rank) their versions differ, and the copy is rounded again here, at its next
/// use.
///
/// Throws Error that begins with `operation` where `dtype` is not the one in which the parameter's arena
/// still computes: with f32 the whole model would silently compute in f32.
Tensor in_dtype(const Tensor& parameter, DType dtype, const char* operation = "in_dtype");

/// The dtype that a model with this parameter computes in: the dtype of its 16-bit copy, if it has one, or
/// its own.
DType compute_dtype_of(const Tensor& parameter);

}  // namespace ringtape
