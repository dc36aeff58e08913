#pragma once

#include "kernels/arena.h"
#include "kernels/common/launcher.h"

namespace ringtape {

/// The result of gradient_norm, on the device.
struct GradientNorm {
  float norm;  ///< of the unscaled gradients
  /// min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_; the loss scale is not in it. Unless
  /// max_norm is infinite: 0 for an infinite norm, NaN for a NaN norm.
  float clip_factor;
  int nonfinite;  ///< 1 when the norm is infinite or NaN, else 0
};

/// The gradients of all parameters that have one (see kernels/arena.h).
struct GradientNormProblem {
  const float* gradients;
  const Tile* tiles;
  std::int64_t tile_count;
  const std::uint8_t* has_grad;
  double norm_type;         ///< p of the norm (sum |g|^p)^(1/p); infinity: the largest |g|
  float max_norm;           ///< infinity: the norm is only measured, and the clip factor is 1
  const float* loss_scale;  ///< on the device: the gradients are multiplied by it; null for 1
};

}  // namespace ringtape

/// Norm and clip factor, in one launch; for a p other than 1, 2 and infinity in two, of which the first finds
/// m, the largest |g|, and the second m * (sum (|g| / m)^p)^(1/p). Sums are in double, so that the norm is
/// infinite only where it is above 3.4e38, float's largest, or a gradient is infinite. With p below 1
/// ordinary norms exceed it: of n gradients of m the norm is m * n^(1/p), 1e50 m for p = 0.1 and n = 100,000.
RINGTAPE_LAUNCHER(gradient_norm, const GradientNormProblem& problem, GradientNorm* result);

/// The two halves of gradient_norm where each rank has a shard of the gradients. The first writes the rank's
/// total; the caller sums the totals over the ranks (for an infinite norm_type it takes their maximum, in
/// which NaN counts as infinity). The second computes norm and factor from the result. For a p other than 1,
/// 2 and infinity call both for infinity first, without a loss scale: `result` then holds m as the norm.
RINGTAPE_LAUNCHER(gradient_norm_total, const GradientNormProblem& problem, const GradientNorm* result,
                  double* total);
RINGTAPE_LAUNCHER(gradient_norm_of_total, const GradientNormProblem& problem, const double* total,
                  GradientNorm* result);

/// Clips in place: multiplies the gradients of the same parameters by min(1, max_norm / (norm + 1e-6)) of
/// `result`, which gradient_norm has written for the same problem. The gradients stay multiplied by the loss
/// scale. If the factor is 1 or the norm is infinite or NaN, no gradient is read or written: a factor of 0 or
/// NaN would destroy them.
RINGTAPE_LAUNCHER(clip_gradients, const GradientNormProblem& problem, const GradientNorm* result,
                  float* gradients);

/// x[i] = min(max(x[i], -limit), limit) with the limit times the loss scale, if there is one. Infinite values
/// and NaN stay unchanged: a later norm must detect the overflow.
RINGTAPE_LAUNCHER(clip_value, float* x, std::int64_t n, float limit, const float* loss_scale);
