#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// out[columns, rows] = the transpose of in[rows, columns], f32. Both sizes are multiples of 64, so that no
/// rung has to handle the matrix's edges.
struct TransposeProblem {
  const float* in;
  float* out;
  int rows;
  int columns;
};

}  // namespace ringtape

RINGTAPE_LAUNCHER(transpose_naive, const TransposeProblem& problem);
RINGTAPE_LAUNCHER(transpose_tile, const TransposeProblem& problem);
RINGTAPE_LAUNCHER(transpose_padded, const TransposeProblem& problem);
RINGTAPE_LAUNCHER(transpose_vectorised, const TransposeProblem& problem);
RINGTAPE_LAUNCHER(transpose_swizzled, const TransposeProblem& problem);
