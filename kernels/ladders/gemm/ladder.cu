#include "kernels/common/kernel.h"
//
#include "kernels/ladders/gemm/gemm.h"

namespace ringtape::RINGTAPE_TARGET {

void gemm_rung(const Stream& stream, int version, const GemmProblem& problem) {
  constexpr void (*kRungs[])(const Stream&, const GemmProblem&) = {
      gemm_naive,      gemm_coalesced,       gemm_shared,    gemm_tile_1d,    gemm_tile_2d,
      gemm_vectorised, gemm_double_buffered, gemm_warp_tile, gemm_tensor_core};
  kRungs[version - 1](stream, problem);
}

}  // namespace ringtape::RINGTAPE_TARGET
