#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "autograd/ops.h"

namespace ringtape {

/// Which tokens of every sequence a rank has where `ranks` ranks divide them (context parallelism,
/// docs/parallel.md). Of 2 c equal chunks, for c ranks, rank r has the chunks r and 2 c - 1 - r, in this
/// order: with causal attention a token sees the tokens before it, and so each rank's tokens together see the
/// same number (Grattafiori et al., "The Llama 3 herd of models", 2024, section 3.3.2; Brandon et al.,
/// "Striped attention", 2023, balance it by single tokens).
struct ContextPart {
  int rank = 0;
  int ranks = 1;
  /// causal_self_attention() among the tokens of all ranks, for qkv of this rank's.
  std::function<Tensor(const Tensor& qkv, int heads, int kv_heads, const AttentionOptions& options)>
      attention;

  /// The number of this rank's first or second chunk (0 or 1) among all, and of another rank's.
  int chunk(int half) const { return chunk(rank, half); }
  int chunk(int of_rank, int half) const { return half == 0 ? of_rank : 2 * ranks - 1 - of_rank; }

  /// Where the tokens `first` to `first + count - 1` of this rank's `own` are in their sequence.
  std::vector<TokenRun> runs(std::int64_t own, std::int64_t first, std::int64_t count) const;
  std::vector<TokenRun> runs(std::int64_t own) const { return runs(own, 0, own); }
  /// The positions of this rank's `own` tokens: i32 [own]. Kept for the next call.
  Tensor positions(std::int64_t own, Device device) const;

  mutable Tensor last_positions = {};
};

}  // namespace ringtape
