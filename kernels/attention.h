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

/// For a call with a piece of the keys that its queries see: several calls compute one softmax.
struct AttentionPiece {
  bool is_one = false;           ///< false: the call has all keys, and the other members are not used
  bool causal = true;            ///< queries and keys are the same tokens; false: each query sees all keys
  bool resumes = false;          ///< out and lse hold the results of earlier pieces, which this call extends
  std::int64_t tokens = 0;       ///< of a whole sequence
  std::int64_t first_query = 0;  ///< position of the first query in the sequence
  std::int64_t first_key = 0;    ///< position of the first key: with dropout a multiple of 4
};

/// Causal attention. Query i of a head sees the keys j <= i + keys - queries, so that the last query sees the
/// last key: `queries` is less than `keys` where the first keys come from a cache. Head h reads the keys and
/// values of head h / (heads / kv_heads). With s_ij = scale * q_i . k_j over the visible keys:
///
///   lse_i = log sum_j exp(s_ij)      p_ij = exp(s_ij - lse_i)      out_i = sum_j m_ij p_ij v_j
///
/// m_ij is 1 without dropout. With dropout it is 0 with that probability, else 1 / (1 - dropout): 0 where
/// word j % 4 of Philox (core/philox.h) is below dropout * 2^32, at the counter whose low half is `counter`
/// and whose high half is (head * keys + i + keys - queries) * ceil(keys / 4) + j / 4, where heads are
/// counted through all sequences, `mask_heads` in each. So the backward, and a forward that is computed
/// again, have the same mask, and nothing is stored. For a piece, positions in the whole sequence replace i
/// and j, and the sequence's tokens replace `keys`.
struct AttentionArgs {
  DType dtype = DType::f32;  ///< of q, k, v, out: f32, bf16 or f16; f64 on the CPU
  std::int64_t batch = 0;
  std::int64_t heads = 0;     ///< of q and out
  std::int64_t kv_heads = 0;  ///< of k and v; divides heads
  std::int64_t queries = 0;
  std::int64_t keys = 0;   ///< at least `queries`
  std::int64_t width = 0;  ///< elements of a head, 1 to kMaxAttentionWidth
  double scale = 1;
  AttentionOperand q, k, v, out;
  void* lse = nullptr;  ///< [batch, heads, queries], f32 (f64 for f64)
  double dropout = 0;   ///< probability, below 1
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;  ///< taken from the generator: one for each call
  // If the heads are some of a larger number of heads, whose masks they have:
  std::int64_t mask_heads = 0;       ///< the number of all heads; 0: `heads`
  std::int64_t first_mask_head = 0;  ///< number of the first of this call's heads
  AttentionPiece piece = {};
};

inline constexpr std::int64_t kMaxAttentionWidth = 128;

/// At most this many queries are computed by attention_forward_few().
inline constexpr std::int64_t kFewQueries = 2;

/// The gradients of q, k and v, from the gradient of out. With dp_ij = dout_i . v_j:
///
///   delta_i = dout_i . out_i      ds_ij = scale * p_ij * (m_ij dp_ij - delta_i)
///   dq_i = sum_j ds_ij k_j      dk_j = sum_i ds_ij q_i      dv_j = sum_i m_ij p_ij dout_i
struct AttentionGradients {
  AttentionOperand dout, dq, dk, dv;
  void* delta = nullptr;    ///< [batch, heads, queries], f32 (f64 for f64): overwritten
  bool accumulate = false;  ///< adds to dq, dk and dv instead of overwriting them
};

}  // namespace ringtape

/// Writes out and lse. One or two queries without dropout or piece are computed one by one. Otherwise a block
/// computes a tile of queries and goes through the keys tile by tile with a running maximum and sum (Milakov
/// and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, "FlashAttention-2: Faster
/// Attention with Better Parallelism and Work Partitioning", 2023): nothing of size queries x keys is stored.
RINGTAPE_LAUNCHER(attention_forward, const AttentionArgs& args);

/// The same without dropout, for few queries: a block for each query and head. attention_forward() calls it.
RINGTAPE_LAUNCHER(attention_forward_few, const AttentionArgs& args);

/// Reads q, k, v, out, lse and dout; computes p again from lse. One pass over tiles of queries gives dq, one
/// over tiles of keys dk and dv, each sum in a fixed order. A single pass would save two of the seven
/// products of tiles, but needs atomics or a buffer for the parts of dq.
RINGTAPE_LAUNCHER(attention_backward, const AttentionArgs& args, const AttentionGradients& gradients);
