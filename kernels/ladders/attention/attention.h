#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Elements of a head.
inline constexpr int kLadderHeadWidth = 64;

/// Causal attention of `heads` heads, q, k, v and out each [heads, tokens, 64]: out_i = sum over j <= i of
/// softmax_j(q_i . k_j / 8) v_j. q, k and v are f32, for the last rung bf16; out is f32. The number of tokens
/// is a multiple of 64, so that no rung has to handle the edges of tiles, and at most 8192.
/// `scores` has heads * tokens * tokens elements, which only the first rung uses.
struct LadderAttention {
  const void *q, *k, *v;
  float* out;
  float* scores;
  int heads;
  int tokens;
};

}  // namespace ringtape

RINGTAPE_LAUNCHER(attention_naive, const LadderAttention& problem);
RINGTAPE_LAUNCHER(attention_fused, const LadderAttention& problem);
RINGTAPE_LAUNCHER(attention_online, const LadderAttention& problem);
RINGTAPE_LAUNCHER(attention_vectorised, const LadderAttention& problem);
RINGTAPE_LAUNCHER(attention_tensor_core, const LadderAttention& problem);
