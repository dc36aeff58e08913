#pragma once

#include "autograd/ops.h"
#include "kernels/attention.h"

namespace ringtape {

/// Element `index` of a tensor.
void* element_of(const Tensor& tensor, std::int64_t index);

/// The sizes and options of a call of attention, for qkv [batch, tokens, row()]: what the operations share.
struct AttentionHeads {
  std::int64_t batch, tokens, heads, kv_heads, width;
  AttentionOptions options;

  /// Elements of a token of qkv.
  std::int64_t row() const { return (heads + 2 * kv_heads) * width; }
  /// Heads `first` and on of a tensor [batch, tokens, row]; of a cache, with tokens for its capacity.
  AttentionOperand operand(const Tensor& tensor, std::int64_t row, std::int64_t first) const {
    return {element_of(tensor, first * width), tensor.size(1) * row, row, width};
  }
  AttentionOperand queries(const Tensor& qkv) const { return operand(qkv, row(), 0); }
  AttentionOperand keys(const Tensor& qkv) const { return operand(qkv, row(), heads); }
  AttentionOperand values(const Tensor& qkv) const { return operand(qkv, row(), heads + kv_heads); }
  AttentionOperand results(const Tensor& out) const { return operand(out, heads * width, 0); }

  /// FLOPs of one product: of a row of `width` elements and a column for every query and key that it sees.
  std::int64_t flops() const { return batch * heads * tokens * (tokens + 1) * width; }

  /// For the tokens of qkv among themselves; lse is f32, f64 for f64.
  AttentionArgs args(const Tensor& qkv, const Tensor& out, const Tensor& lse) const;
};

/// Throws Error, which names the operation, for arguments that are none of attention.
AttentionHeads heads_of(const char* operation, const Tensor& qkv, int heads, int kv_heads,
                        const AttentionOptions& options);

}  // namespace ringtape
