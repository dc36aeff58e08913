#include "kernels/common/kernel.h"
//
#include "kernels/ladders/layer_norm/layer_norm.h"

namespace ringtape::RINGTAPE_TARGET {

void layer_norm_rung(const Stream& stream, int version, const LayerNormProblem& problem) {
  constexpr void (*kRungs[])(const Stream&, const LayerNormProblem&) = {
      layer_norm_naive, layer_norm_block_per_row, layer_norm_one_pass, layer_norm_vectorised,
      layer_norm_registers};
  kRungs[version - 1](stream, problem);
}

}  // namespace ringtape::RINGTAPE_TARGET
