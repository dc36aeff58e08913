#pragma once

#include "kernels/arena.h"
#include "kernels/arena_norms.h"
#include "kernels/common/launcher.h"

namespace ringtape {

/// LARS (You et al., "Large batch training of convolutional networks", 2017, arXiv:1708.03888).
struct LarsStep {
  ArenaView arena;
  float* momentum_buffer;    ///< v, of the length of the arena, or of the rank's shard
  SquaredNorms* tile_norms;  ///< [tile_count], scratch
  SquaredNorms* norms;       ///< [parameter_count], of w and the unclipped, scaled gradient, scratch
  double momentum;
  double trust_coefficient;
  double eps;
};

}  // namespace ringtape

/// One step over the arena. With g the unscaled gradient times the clip factor, per parameter and element:
///   local = trust_coefficient * ||w|| / (||g|| + decay * ||w|| + eps)
///   v = momentum * v + local * (g + decay * w)
///   w = w - lr * v
/// local is 1 where either norm is 0 and for a parameter without a trust ratio, which makes it SGD with
/// momentum.
///
/// Call lars_norms() and then lars_values(). With a shard on each rank, sum the norms over the ranks in
/// between.
///
/// Three launches: a partial norm for each tile, the sum of these for each parameter, the values. Bytes per
/// element are the first's 8 (w, g read) and the last's 20 (w, g, v read, w, v written): 28, as AdamW.
RINGTAPE_LAUNCHER(lars_norms, const LarsStep& step);
RINGTAPE_LAUNCHER(lars_values, const LarsStep& step);
