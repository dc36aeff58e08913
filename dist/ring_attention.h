#pragma once

#include <memory>

#include "autograd/ops.h"
#include "dist/communicator.h"
#include "nn/context_part.h"

namespace ringtape {

/// causal_self_attention() of sequences whose tokens the ranks of `comm` divide as ContextPart says: qkv
/// [B, T, (heads + 2 kv_heads) D] has this rank's T tokens, and so has the result [B, T, heads D].
///
/// The keys and values go round the ring of ranks (Liu, Zaharia and Abbeel, "Ring attention with blockwise
/// transformers for near-infinite context", 2023, arXiv:2310.01889): while a rank attends to the keys and
/// values it has, it sends them to the next rank and receives the previous rank's. So of c ranks each has two
/// of the c shards at a time, and softmax goes on from shard to shard. The backward sends keys and values
/// round again, and with them their gradients, to which each rank adds its part; after the last step they are
/// home. All sums have a fixed order.
///
/// With S the bytes of a shard of keys and values a rank sends (c - 1) S in forward, in c - 1 exchanges, and
/// (2 c - 1) S in backward, in 2 c - 1. In 16 bits result and gradients are rounded after each chunk.
///
/// All ranks of `comm` must call it in the same order, also in backward. Throws Error like
/// causal_self_attention(), for an odd T, and with dropout for chunks that 4 does not divide, since one
/// counter of the generator is for 4 keys.
Tensor ring_attention(const Tensor& qkv, int heads, int kv_heads, const AttentionOptions& options,
                      const std::shared_ptr<Communicator>& comm);

/// This rank's part of sequences that the ranks of `comm` divide.
std::shared_ptr<const ContextPart> context_part_over(const std::shared_ptr<Communicator>& comm);

}  // namespace ringtape
