#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// C[m, n] = A[m, k] B[k, n], row-major; all sizes are multiples of 128, so that no rung has to handle the
/// matrices' edges (kernels/gemm_tiled.cu does). A and B are f32, for the last rung bf16; C is f32.
struct GemmProblem {
  const void* a;
  const void* b;
  float* c;
  int m, n, k;
};

}  // namespace ringtape

RINGTAPE_LAUNCHER(gemm_naive, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_coalesced, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_shared, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_tile_1d, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_tile_2d, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_vectorised, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_double_buffered, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_warp_tile, const GemmProblem& problem);
RINGTAPE_LAUNCHER(gemm_tensor_core, const GemmProblem& problem);
