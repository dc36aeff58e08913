#pragma once

#include "nn/arena.h"

namespace ringtape {

/// The norm that clip_grad_norm() takes, and its effect if the norm is infinite or NaN.
struct ClipNormOptions {
  double norm_type = 2;  ///< p of the p-norm, above 0; infinity: the largest absolute value
  /// If the norm is infinite or NaN, the next optimizer step changes nothing and is counted in
  /// Optimizer::skipped_updates(); the host notices when it reads the norm or the count. With a loss scale
  /// this is always on.
  bool skip_nonfinite = false;
};

/// The p-norm of the gradients of all parameters that have one, as a scalar on the device. If it is above
/// `max_norm`, the next optimizer step uses the gradients times max_norm / (norm + 1e-6), as PyTorch's
/// clip_grad_norm_ does (Pascanu et al., "On the difficulty of training recurrent neural networks", 2013).
/// The factor stays on the device and is applied inside the step's launch, so that clipping costs one read of
/// the gradients and the host never waits; the gradients in memory do not change: unlike PyTorch's, Tensor's
/// grad() is unclipped. Only one step applies the factor: a second step without another call uses the
/// unclipped gradients. Of two calls before a step the second counts. Call it after the last backward() and
/// clip_grad_value(); the step throws Error if a backward() has added to the gradients since. With max_norm =
/// infinity the norm is only measured; the gradients may then change before the step, unless it can skip. The
/// norm of an infinite gradient, or a norm above 3.4e38, the largest float, is infinite, and its factor is 0.
/// With p below 1 this happens for ordinary gradients (n equal elements have n^(1/p) times the norm of one):
/// then every step is skipped, or without skip_nonfinite uses zeros as gradients.
///
/// With a loss scale (ParameterArena::loss_scale) norm and max_norm refer to the unscaled gradients.
///
/// If ranks divide the model (ParameterArena::division and stages) or shard the gradients, the norm covers
/// the gradients of the whole model: each part counts, and a parameter that several ranks have counts once.
/// All of these ranks must call it.
///
/// Throws Error unless norm_type is above 0, and max_norm is infinite or from 1.4e-45 to 3.4e38, the range of
/// float. The next call overwrites the result.
Tensor clip_grad_norm(ParameterArena& arena, double max_norm, const ClipNormOptions& options = {});

/// The same norm, but the gradients are scaled at once, in memory: for clipping after each micro-batch, which
/// limits the gradients accumulated so far (Trainer uses max_norm / sqrt(micro-batches)). Each rank clips its
/// own gradients before they are reduced, so the result depends on the number of ranks and the size of the
/// micro-batches. A loss scale stays in the gradients. If the norm is infinite or NaN the gradients do not
/// change, so that the clip_grad_norm() before the step finds the same norm and skips the step. Throws Error
/// as clip_grad_norm() does, for a sharded arena, and between clip_grad_norm() and the step.
Tensor clip_grad_norm_now(ParameterArena& arena, double max_norm, double norm_type = 2);

/// Limits every gradient element to [-limit, limit], in memory; with a loss scale, to that range times the
/// scale. Infinite values and NaN do not change (PyTorch's clip_grad_value_ limits infinity), so that a later
/// clip_grad_norm() detects an overflow. Throws Error between clip_grad_norm() and the step, and unless
/// `limit` is infinite or from 1.4e-45 to 3.4e38, the range of float.
void clip_grad_value(ParameterArena& arena, double limit);

}  // namespace ringtape
