#pragma once

#include "kernels/arena.h"
#include "kernels/arena_norms.h"
#include "kernels/common/launcher.h"

namespace ringtape {

/// How the bias corrections b1 = 1 / (1 - beta1^t) and b2 = 1 / (1 - beta2^t) of Adam's moments are applied.
enum class LambDebias {
  in_norm,      ///< u = b1 m / (sqrt(b2 v) + eps) + decay w: the norm of the corrected update
  out_of_norm,  ///< u = m / (sqrt(v) + eps) + decay w, and the learning rate is multiplied by b1 / sqrt(b2)
  none,         ///< u = m / (sqrt(v) + eps) + decay w, and no correction
};

/// Per-parameter factors of one LAMB step, computed on the device in double before the step.
struct alignas(16) LambCoefficients {
  float learning_rate;  ///< with the bias correction for out_of_norm
  float weight_decay;
  float first_scale;   ///< b1 where the correction is in the norm, else 1
  float inverse_root;  ///< sqrt(b2), likewise
};

/// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020,
/// arXiv:1904.00962, Algorithm 2).
struct LambStep {
  ArenaView arena;
  float* first_moment;             ///< m, of the length of the arena, or of the rank's shard
  float* second_moment;            ///< v, likewise
  std::int64_t* steps;             ///< [parameter_count]: t, the steps of each parameter; this launch adds 1
  LambCoefficients* coefficients;  ///< [parameter_count], scratch
  SquaredNorms* tile_norms;        ///< [tile_count], scratch
  SquaredNorms* norms;             ///< [parameter_count], of w and u, scratch
  double beta1;
  double beta2;
  double eps;
  LambDebias debias;
  double min_ratio;  ///< the trust ratio is limited to [min_ratio, max_ratio]
  double max_ratio;
};

}  // namespace ringtape

/// One step over the whole arena. With g the unscaled gradient times the clip factor, per element:
///   m = m + (1 - beta1) (g - m);   v = beta2 * v + (1 - beta2) g^2
///   u = first_scale * m / (sqrt(v) * inverse_root + eps) + decay * w
///   w = w - lr * ratio * u
/// where ratio = ||w|| / ||u|| over the parameter, within its limits; 1 where either norm is 0 and for a
/// parameter without a trust ratio.
///
/// Call lamb_norms() and then lamb_values(). With a shard on each rank, sum the norms over the ranks in
/// between.
///
/// Four launches: the coefficients; the moments, with a partial norm for each tile; the sum of the partial
/// norms for each parameter; the values. The third reads 16 bytes a tile, so bytes per element are the
/// second's 24 (g, w, m, v read, m, v written) and the fourth's 16 (m, v, w read, w written): 40, where AdamW
/// moves 28. The fourth computes u again from m, v and w. Storing u instead would move as many bytes (28 and
/// then 12), and need 4 more bytes of memory per element or overwrite the gradient.
RINGTAPE_LAUNCHER(lamb_norms, const LambStep& step);
RINGTAPE_LAUNCHER(lamb_values, const LambStep& step);
