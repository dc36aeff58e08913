#pragma once

#include "nn/arena.h"

namespace ringtape {

struct ClipNormOptions {
  double norm_type = 2;  ///< p of the p-norm, above 0; infinity: the largest absolute value
  /// The next optimizer step changes nothing where the norm is infinite or NaN, and is counted in
  /// Optimizer::skipped_updates(). The host learns of it when it reads the norm or the count.
  bool skip_nonfinite = false;
  /// On the device: what the loss, and so the gradients in memory, was multiplied by; null for nothing.
  const float* loss_scale = nullptr;
};

/// p-norm of the gradients of all parameters that have one, as a scalar on the device. If it is above
/// `max_norm`, the next optimizer step uses the gradients times max_norm / (norm + 1e-6), as PyTorch's
/// clip_grad_norm_ does (Pascanu et al., "On the difficulty of training recurrent neural networks", 2013).
/// The factor stays on the device and is applied inside the step's launch, so that clipping costs one read of
/// the gradients and the host never waits; the gradients in memory are left as they are. With max_norm =
/// infinity the norm is only measured.
///
/// With a loss scale, norm and max_norm are those of the unscaled gradients, and the next step divides by the
/// scale as well.
///
/// Throws Error unless max_norm and norm_type are above 0. The result is overwritten by the next call.
Tensor clip_grad_norm(ParameterArena& arena, double max_norm, const ClipNormOptions& options = {});

/// The same norm, but the gradients are scaled at once, in memory: for clipping after each micro-batch, which
/// limits what has been accumulated so far (with max_norm / sqrt(micro-batches), as it is usually done). Each
/// rank clips its own gradient before they are reduced, so the result depends on the number of ranks and on
/// the size of the micro-batches. A loss scale stays in the gradients, and so does what is not finite: the
/// clip_grad_norm() before the step finds it.
Tensor clip_grad_norm_now(ParameterArena& arena, double max_norm, double norm_type = 2,
                          const float* loss_scale = nullptr);

/// Limits every gradient element to [-limit, limit], in memory; with a loss scale to that times the limit.
/// Throws Error unless `limit` is above 0.
void clip_grad_value(ParameterArena& arena, double limit, const float* loss_scale = nullptr);

}  // namespace ringtape
