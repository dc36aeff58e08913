#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "autograd/ops.h"

namespace ringtape {

/// The tokens of every sequence that a rank has under context parallelism (docs/parallel.md). With c ranks a
/// sequence is cut into 2 c equal chunks, and rank r has the chunks r and 2 c - 1 - r, in this order. With
/// causal attention a token sees the tokens before it, so that in total each rank's tokens see the same
/// number (Grattafiori et al., "The Llama 3 herd of models", 2024, section 3.3.2; Brandon et al., "Striped
/// attention", 2023, balance the ranks by single tokens).
struct ContextPart {
  int rank = 0;
  int ranks = 1;
  /// causal_self_attention() over the tokens of all ranks, for the qkv of this rank's tokens.
  std::function<Tensor(const Tensor& qkv, int heads, int kv_heads, const AttentionOptions& options)>
      attention;

  /// The number, among all chunks, of the first or second chunk (`half` 0 or 1) of this or another rank.
  int chunk(int half) const { return chunk(rank, half); }
  int chunk(int of_rank, int half) const { return half == 0 ? of_rank : 2 * ranks - 1 - of_rank; }

  /// Of this rank's `own` tokens, the positions in the sequence of tokens `first` to `first + count - 1`.
  std::vector<TokenRun> runs(std::int64_t own, std::int64_t first, std::int64_t count) const;
  std::vector<TokenRun> runs(std::int64_t own) const { return runs(own, 0, own); }
  /// The positions of this rank's `own` tokens: i32 [own]. The tensor is kept for the next call.
  Tensor positions(std::int64_t own, Device device) const;

  mutable Tensor last_positions = {};
};

}  // namespace ringtape
