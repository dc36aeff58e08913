#pragma once

#include "autograd/ops.h"
#include "kernels/attention.h"

namespace ringtape {

/// The address of element `index` of a tensor.
void* element_of(const Tensor& tensor, std::int64_t index);

/// The sizes and options of an attention call for qkv [batch, tokens, row()].
struct AttentionHeads {
  std::int64_t batch, tokens, heads, kv_heads, width;
  AttentionOptions options;

  /// Elements of one token of qkv.
  std::int64_t row() const { return (heads + 2 * kv_heads) * width; }
  /// The heads from `first` on of a tensor [batch, tokens, row]; of a cache, with its capacity in place of
  /// tokens.
  AttentionOperand operand(const Tensor& tensor, std::int64_t row, std::int64_t first) const {
    return {element_of(tensor, first * width), tensor.size(1) * row, row, width};
  }
  AttentionOperand queries(const Tensor& qkv) const { return operand(qkv, row(), 0); }
  AttentionOperand keys(const Tensor& qkv) const { return operand(qkv, row(), heads); }
  AttentionOperand values(const Tensor& qkv) const { return operand(qkv, row(), heads + kv_heads); }
  AttentionOperand results(const Tensor& out) const { return operand(out, heads * width, 0); }

  /// FLOPs of one product: 2 * width for each query and each key that it sees, in every head and sequence.
  std::int64_t flops() const { return batch * heads * tokens * (tokens + 1) * width; }

  /// The arguments for the tokens of qkv among themselves; lse is f32 (f64 for f64).
  AttentionArgs args(const Tensor& qkv, const Tensor& out, const Tensor& lse) const;
};

/// Checks the arguments of `operation`. Throws Error that names it if they are invalid.
AttentionHeads heads_of(const char* operation, const Tensor& qkv, int heads, int kv_heads,
                        const AttentionOptions& options);

}  // namespace ringtape
