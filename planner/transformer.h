#pragma once

#include <cstdint>
#include <vector>

#include "nn/transformer.h"
#include "planner/model_state.h"

namespace ringtape::planner {

/// A decoder of GPT-2's architecture: learned positions, layers of attention and an MLP of 4 x hidden with
/// GELU, biases, dropout, and an output layer that shares the embedding's weight.
struct Transformer {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;  ///< the width: elements of a token's vector
  std::int64_t heads = 0;   ///< a divisor of hidden
  std::int64_t sequence = 0;
  std::int64_t vocabulary = 0;
};

/// The same as options of nn/gpt.h, with the sequence length as context. Throws Error for sizes out of range
/// and heads that do not divide the width.
TransformerOptions gpt_options(const Transformer& model);

/// Which activations of a layer are kept for backward.
enum class Recompute {
  none,       ///< everything
  selective,  ///< all but softmax(QK^T) and the tensors computed from it (Korthikanti et al., section 5)
  full,       ///< the layer's input
};

/// L (12 h^2 + 13 h) + (v + s) h + 2 h: in a layer 4 h^2 + 4 h of attention, 8 h^2 + 5 h of the MLP, 4 h of
/// two layer norms; the embeddings; the last layer norm. Throws Error for sizes out of range and heads that
/// do not divide the width.
std::int64_t parameter_count(const Transformer& model);
/// 12 h^2 + 13 h, or the embeddings if they are larger.
std::int64_t largest_layer(const Transformer& model);

/// Activations of training with b samples, by Korthikanti et al., "Reducing activation recomputation in large
/// transformer models", 2022, arXiv:2205.05198. Its equation 1 has s b h (34 + 5 a s / h) bytes a layer in 16
/// bits: 11 s b h + 5 a s^2 b of attention, 19 s b h of the MLP, 4 s b h of two layer norms. 32 of the 34 and
/// 4 of the 5 are values of 2 bytes, the others are masks of 1 byte, so with e bytes a value it is s b h
/// (16 e + 2) + a s^2 b (2 e + 1). Outside the layers there are s b h for the mask of the embeddings'
/// dropout, 2 e s b h for the inputs of the last layer norm and of the output layer, and 4 s b v for the
/// logits in f32 (section 4.3). Selective recomputation leaves 34 s b h of a layer (equation 6, without
/// tensor parallelism), full recomputation its input, 2 s b h. Recomputed activations exist for one layer at
/// a time, and have their own row. Gradients of activations are neither in the paper's formulas nor here.
std::vector<MemoryRow> training_activations(const Transformer& model, std::int64_t micro_batch,
                                            std::int64_t value_bytes, Recompute recompute);

/// Activations of a forward over all s positions: keys and values of every layer, 2 e L s b h; at most all
/// results of one layer, 16 e s b h + 2 e a s^2 b; the logits, 4 s b v.
std::vector<MemoryRow> inference_activations(const Transformer& model, std::int64_t micro_batch,
                                             std::int64_t value_bytes);

}  // namespace ringtape::planner
