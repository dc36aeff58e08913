#pragma once

#include "nn/arena.h"

namespace ringtape {

/// Euclidean norm of the gradients of all parameters that have one, as a scalar on the device. If it is above
/// `max_norm`, the next optimizer step uses the gradients times max_norm / (norm + 1e-6), as PyTorch's
/// clip_grad_norm_ does (Pascanu et al., "On the difficulty of training recurrent neural networks", 2013).
/// The factor stays on the device and is applied inside the step's launch, so that clipping costs one read of
/// the gradients and the host never waits; the gradients in memory are left as they are. With max_norm =
/// infinity the norm is only measured. Throws Error unless max_norm is above 0.
///
/// The result is overwritten by the next call.
Tensor clip_grad_norm(ParameterArena& arena, double max_norm);

/// Limits every gradient element to [-limit, limit], in memory. Throws Error unless `limit` is above 0.
void clip_grad_value(ParameterArena& arena, double limit);

}  // namespace ringtape
