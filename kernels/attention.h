#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// Where queries, keys, values or results lie: element d of head h of token t of sequence b is
/// data[b * batch + t * token + h * head + d]. Strides are in elements.
struct AttentionOperand {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t token = 0;
  std::int64_t head = 0;
};

/// Causal attention. Query i of a head sees the keys j <= i + keys - queries, so that the last query sees the
/// last key: `queries` is less than `keys` where the first keys come from a cache. Head h reads the keys and
/// values of head h / (heads / kv_heads). With s_ij = scale * q_i . k_j over the visible keys:
///
///   lse_i = log sum_j exp(s_ij)      p_ij = exp(s_ij - lse_i)      out_i = sum_j p_ij v_j
struct AttentionArgs {
  DType dtype = DType::f32;  ///< of q, k, v, out: f32, bf16 or f16; f64 on the CPU
  std::int64_t batch = 0;
  std::int64_t heads = 0;     ///< of q and out
  std::int64_t kv_heads = 0;  ///< of k and v; divides heads
  std::int64_t queries = 0;
  std::int64_t keys = 0;   ///< at least `queries`
  std::int64_t width = 0;  ///< elements of a head, 1 to kMostAttentionWidth
  double scale = 1;
  AttentionOperand q, k, v, out;
  void* lse = nullptr;  ///< [batch, heads, queries], f32 (f64 for f64)
};

inline constexpr std::int64_t kMostAttentionWidth = 128;

/// The gradients of q, k and v, from that of out. With dp_ij = dout_i . v_j:
///
///   delta_i = dout_i . out_i      ds_ij = scale * p_ij * (dp_ij - delta_i)
///   dq_i = sum_j ds_ij k_j      dk_j = sum_i ds_ij q_i      dv_j = sum_i p_ij dout_i
struct AttentionGradients {
  AttentionOperand dout, dq, dk, dv;
  void* delta = nullptr;    ///< [batch, heads, queries], f32 (f64 for f64): overwritten
  bool accumulate = false;  ///< adds to dq, dk and dv instead of overwriting them
};

}  // namespace ringtape

/// Writes out and lse. A block computes a tile of queries, and goes through the keys tile by tile with a
/// running maximum and sum (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao,
/// "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023): nothing of size
/// queries x keys is stored.
RINGTAPE_LAUNCHER(attention_forward, const AttentionArgs& args);

/// Reads q, k, v, out and lse; computes p again from lse. One pass over tiles of queries gives dq, one over
/// tiles of keys dk and dv, each sum in a fixed order. A single pass would save two of the seven products of
/// tiles, but needs atomics or a buffer for the parts of dq.
RINGTAPE_LAUNCHER(attention_backward, const AttentionArgs& args, const AttentionGradients& gradients);
