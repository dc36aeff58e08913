#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Normalised rows: layer normalisation (Ba et al., "Layer normalization", 2016) or, without a mean, RMS
/// normalisation (Zhang and Sennrich, "Root mean square layer normalization", 2019). All matrices are
/// row-major. T is the dtype, A its accumulation type: f32, or f64 for f64.
struct NormProblem {
  DType dtype;  ///< f32, bf16, f16 or, on the CPU, f64
  std::int64_t rows;
  std::int64_t columns;  ///< at most kMaxNormColumns
  double eps;
  const void* weight;  ///< T [columns]
  const void* x;       ///< T [rows, columns]
  void* mean;          ///< A [rows]; null: RMS normalisation
  void* rstd;          ///< A [rows]: 1 / sqrt(variance + eps); RMS: 1 / sqrt(mean square + eps)
};

/// The backward keeps the sums of all columns in shared memory, which limits their number.
inline constexpr std::int64_t kMaxNormColumns = 12288;

/// The number of blocks of norm_backward, each with partial gradients of the parameters: a function of the
/// rows and the kind of device, so that the order of the additions depends only on these. A GPU has up to
/// 1024, enough to fill it.
inline std::int64_t norm_backward_blocks(std::int64_t rows, bool on_gpu) {
  constexpr std::int64_t kRowsOfBlock = 4;
  const std::int64_t blocks = (rows + kRowsOfBlock - 1) / kRowsOfBlock, most = on_gpu ? 1024 : 256;
  return blocks < most ? blocks : most;
}

}  // namespace ringtape

/// y = (x - mean) * rstd * weight + bias (null for 0), and writes the problem's mean and rstd. With
/// `residual` [rows, columns] the input is x + residual, rounded to T, and is written to `sum`: one read of
/// each, two writes. `residual` and `sum` are null otherwise. The variance is computed from the differences
/// from the mean.
RINGTAPE_LAUNCHER(norm_forward, const NormProblem& problem, const void* residual, void* sum, const void* bias,
                  void* y);

/// With g = dy * weight and h = (x - mean) * rstd, and means over a row,
///   dx (+)= rstd * (g - mean(g) - h * mean(g * h)), for RMS normalisation without mean(g).
/// Block b of norm_backward_blocks(rows, ...), but at most `max_blocks`, writes its sums over rows of dy * h
/// and of dy to row b of `weight_partial` and `bias_partial`, A [blocks, columns]; null where they are not
/// needed. dx may be null. (`max_blocks` is for check builds: kernels with a GPU's geometry on a CPU would
/// use more blocks than their caller has memory for.)
RINGTAPE_LAUNCHER(norm_backward, const NormProblem& problem, const void* dy, void* dx, bool accumulate,
                  std::int64_t max_blocks, void* weight_partial, void* bias_partial);
