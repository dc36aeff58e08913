#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Layer norm of each row of in[rows, columns], f32: out = (in - mean) * rstd * weight + bias, with the row's
/// mean and rstd = 1 / sqrt(variance + 1e-5), which are kept for a backward (Ba, Kiros and Hinton, "Layer
/// normalization", 2016). Both sizes are multiples of 64, columns at most 8192.
struct LayerNormProblem {
  const float* in;
  const float* weight;  ///< [columns], as bias
  const float* bias;
  float* out;
  float* mean;  ///< [rows], as rstd
  float* rstd;
  int rows;
  int columns;
};

inline constexpr float kLadderNormEps = 1e-5f;

}  // namespace ringtape

RINGTAPE_LAUNCHER(layer_norm_naive, const LayerNormProblem& problem);
RINGTAPE_LAUNCHER(layer_norm_block_per_row, const LayerNormProblem& problem);
RINGTAPE_LAUNCHER(layer_norm_one_pass, const LayerNormProblem& problem);
RINGTAPE_LAUNCHER(layer_norm_vectorised, const LayerNormProblem& problem);
RINGTAPE_LAUNCHER(layer_norm_registers, const LayerNormProblem& problem);
