#pragma once

#include <memory>

#include "autograd/ops.h"
#include "dist/communicator.h"
#include "nn/context_part.h"

namespace ringtape {

/// causal_self_attention() of sequences whose tokens the ranks of `comm` divide as ContextPart says: qkv
/// [B, T, (heads + 2 kv_heads) D] and the result [B, T, heads D] are of this rank's T tokens.
///
/// The keys and values go round the ring of ranks (Liu, Zaharia and Abbeel, "Ring attention with blockwise
/// transformers for near-infinite context", 2023, arXiv:2310.01889): while a rank attends to the keys and
/// values that it has, it sends them to the next rank and receives the previous rank's. So each of c ranks
/// has at most three of the c shards at a time, its own among them, and the softmax is continued from shard
/// to shard. The backward sends keys and values round again, and with them their gradients, to which each
/// rank adds its part; after the last step the gradients are back on the rank of their shard. All sums have a
/// fixed order.
///
/// If a shard of keys and values has S bytes, a rank sends (c - 1) S in forward, in c - 1 exchanges, and
/// (2 c - 1) S in backward, in 2 c - 1 exchanges. In 16 bits the result and the gradients are rounded after
/// each chunk.
///
/// All ranks of `comm` must call it in the same order, also in backward. Throws Error like
/// causal_self_attention(), for an odd T, and with dropout for chunks whose length is not a multiple of 4, as
/// one counter of the generator serves 4 keys.
Tensor ring_attention(const Tensor& qkv, int heads, int kv_heads, const AttentionOptions& options,
                      const std::shared_ptr<Communicator>& comm);

/// This rank's part of sequences that the ranks of `comm` divide, with ring_attention() as its attention.
std::shared_ptr<const ContextPart> context_part_over(const std::shared_ptr<Communicator>& comm);

}  // namespace ringtape
