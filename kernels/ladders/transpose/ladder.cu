#include "kernels/common/kernel.h"
//
#include "kernels/ladders/transpose/transpose.h"

namespace ringtape::RINGTAPE_TARGET {

void transpose_rung(const Stream& stream, int version, const TransposeProblem& problem) {
  constexpr void (*kRungs[])(const Stream&, const TransposeProblem&) = {
      transpose_naive, transpose_tile, transpose_padded, transpose_vectorised, transpose_swizzled};
  kRungs[version - 1](stream, problem);
}

}  // namespace ringtape::RINGTAPE_TARGET
