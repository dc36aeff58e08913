#include "kernels/common/kernel.h"
//
#include "kernels/ladders/attention/attention.h"

namespace ringtape::RINGTAPE_TARGET {

void attention_rung(const Stream& stream, int version, const LadderAttention& problem) {
  constexpr void (*kRungs[])(const Stream&, const LadderAttention&) = {
      attention_naive, attention_fused, attention_online, attention_vectorised, attention_tensor_core};
  kRungs[version - 1](stream, problem);
}

}  // namespace ringtape::RINGTAPE_TARGET
