#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Normalised rows: layer normalisation (Ba et al., "Layer normalization", 2016) or, without a mean, RMS
/// normalisation (Zhang and Sennrich, 2019). All matrices are row-major. T is the dtype, A its accumulation
/// type: f32, or f64 for f64.
struct NormProblem {
  DType dtype;  ///< f32, bf16, f16 or, on the CPU, f64
  std::int64_t rows;
  std::int64_t columns;  ///< at most kMostNormColumns
  double eps;
  const void* weight;  ///< T [columns]
  const void* x;       ///< T [rows, columns]
  void* mean;          ///< A [rows]; null: RMS normalisation
  void* rstd;          ///< A [rows]: 1 / sqrt(variance + eps), or of the mean of squares
};

/// The sums of the backward for a row's columns are in shared memory.
inline constexpr std::int64_t kMostNormColumns = 12288;

/// The number of blocks of norm_backward, each with partial gradients of the parameters: a function of the
/// rows and the kind of device, so that the order of the additions is. A GPU has as many as run on it at the
/// same time.
inline std::int64_t norm_backward_blocks(std::int64_t rows, bool on_gpu) {
  constexpr std::int64_t kRowsOfBlock = 4;
  const std::int64_t blocks = (rows + kRowsOfBlock - 1) / kRowsOfBlock, most = on_gpu ? 1024 : 256;
  return blocks < most ? blocks : most;
}

}  // namespace ringtape

/// y = (x - mean) * rstd * weight + bias (null for 0), and writes the problem's mean and rstd. With
/// `residual` [rows, columns] the input is x + residual, rounded to T, and is written to `sum`: one read of
/// each, two writes. `residual` and `sum` are null otherwise. The variance is that of the differences from
/// the mean.
RINGTAPE_LAUNCHER(norm_forward, const NormProblem& problem, const void* residual, void* sum, const void* bias,
                  void* y);

/// With g = dy * weight and h = (x - mean) * rstd, and means over a row,
///   dx (+)= rstd * (g - mean(g) - h * mean(g * h)), for RMS normalisation without mean(g).
/// Block b of norm_backward_blocks(rows, ...), but at most `most_blocks`, writes its sums over rows of dy * h
/// and of dy to row b of `weight_partial` and `bias_partial`, A [blocks, columns]; null where they are not
/// needed. dx may be null. (Kernels that run on a CPU with a GPU's geometry would use more blocks than their
/// caller has memory for.)
RINGTAPE_LAUNCHER(norm_backward, const NormProblem& problem, const void* dy, void* dx, bool accumulate,
                  std::int64_t most_blocks, void* weight_partial, void* bias_partial);
