#pragma once

#include "kernels/arena.h"
#include "kernels/common/launcher.h"

namespace ringtape {

/// Per-parameter factors of one Adam step, computed on the device in double before the step.
struct alignas(16) AdamCoefficients {
  float decay;         ///< AdamW: lr * weight_decay (1 - decay would lose digits in f32)
  float l2;            ///< Adam: weight_decay, adds decay * value to the gradient
  float step_size;     ///< lr / (1 - beta1^t)
  float inverse_root;  ///< 1 / sqrt(1 - beta2^t)
};

/// Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019).
struct AdamStep {
  ArenaView arena;
  float* first_moment;   ///< m, of the length of the arena, or of the rank's shard
  float* second_moment;  ///< v, likewise
  std::int64_t* steps;   ///< [parameter_count]: t, the steps each parameter took; this launch adds 1
  AdamCoefficients* coefficients;  ///< [parameter_count], scratch
  double beta1;
  double beta2;
  double eps;
  bool decoupled_decay;  ///< true: AdamW, false: Adam with L2 decay in the gradient
};

}  // namespace ringtape

/// One step over the whole arena, as PyTorch computes it. With g the unscaled gradient times the clip factor,
/// per element:
///   AdamW: w = (1 - lr * decay) * w;   Adam: g = g + decay * w
///   m = m + (1 - beta1) (g - m);   v = beta2 * v + (1 - beta2) g^2
///   w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// One small launch for the coefficients, one over the tiles.
RINGTAPE_LAUNCHER(adam_step, const AdamStep& step);
