#include "kernels/common/kernel.h"
//
#include "kernels/ladders/softmax/softmax.h"

namespace ringtape::RINGTAPE_TARGET {

void softmax_rung(const Stream& stream, int version, const SoftmaxProblem& problem) {
  constexpr void (*kRungs[])(const Stream&, const SoftmaxProblem&) = {
      softmax_naive, softmax_block_per_row, softmax_online, softmax_vectorised, softmax_staged};
  kRungs[version - 1](stream, problem);
}

}  // namespace ringtape::RINGTAPE_TARGET
