#pragma once

#include <cstdint>
#include <vector>

#include "nn/transformer.h"
#include "planner/model_state.h"

namespace ringtape::planner {

/// Throws Error for sizes out of range, too many parameters by GPT-2's formula, heads that do not divide the
/// width, and heads of keys and values that do not divide the heads.
void check_sizes(const TransformerOptions& model);

// The functions below are for GPT-2's architecture: learned positions, layers of attention and an MLP of 4 x
// width with GELU, biases, dropout, and an output layer that shares the embedding's weight. Of the options
// they read only the sizes L = layers, h = width, a = heads, s = context and v = vocabulary. They throw Error
// as check_sizes() does.

/// Which activations of a layer are kept for backward.
enum class Recompute {
  none,       ///< everything
  selective,  ///< all but softmax(QK^T) and the tensors computed from it (Korthikanti et al., section 5)
  full,       ///< the layer's input
};

/// Elements of the largest layer: 12 h^2 + 13 h, which are 4 h^2 + 4 h of attention, 8 h^2 + 5 h of the MLP
/// and 4 h of two layer norms; or of the embeddings, (v + s) h, if they are larger.
std::int64_t largest_layer(const TransformerOptions& model);

/// Activations of training with b samples, by Korthikanti et al., "Reducing activation recomputation in large
/// transformer models", 2022, arXiv:2205.05198. Its equation 1 has s b h (34 + 5 a s / h) bytes a layer in 16
/// bits: 11 s b h + 5 a s^2 b of attention, 19 s b h of the MLP, 4 s b h of two layer norms. 32 of the 34 and
/// 4 of the 5 are values of 2 bytes, the others are masks of 1 byte, so with e bytes a value it is s b h
/// (16 e + 2) + a s^2 b (2 e + 1). Outside the layers there are s b h for the mask of the embeddings'
/// dropout, 2 e s b h for the inputs of the last layer norm and of the output layer, and 4 s b v for the
/// logits in f32 (section 4.3). Selective recomputation leaves 34 s b h of a layer (equation 6, without
/// tensor parallelism), full recomputation its input, 2 s b h. Recomputed activations exist for one layer at
/// a time, and have their own row. Gradients of activations are neither in the paper's formulas nor here.
std::vector<MemoryRow> training_activations(const TransformerOptions& model, std::int64_t micro_batch,
                                            std::int64_t value_bytes, Recompute recompute);

/// Activations of a forward over all s positions: keys and values of every layer, 2 e L s b h; at most all
/// results of one layer, 16 e s b h + 2 e a s^2 b; the logits, 4 s b v.
std::vector<MemoryRow> inference_activations(const TransformerOptions& model, std::int64_t micro_batch,
                                             std::int64_t value_bytes);

}  // namespace ringtape::planner
