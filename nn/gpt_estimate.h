#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/memory.h"
#include "nn/transformer.h"

/// What a GPT (nn/gpt.h) takes, by formula: parameters, arithmetic, memory.
namespace ringtape {

/// Elements of each parameter, in the order of named_parameters().
std::vector<std::int64_t> parameter_sizes(const TransformerOptions& model);
std::int64_t parameter_count(const TransformerOptions& model);

/// FLOPs of the matrix products in a forward of `sequences` of `tokens` each, two for a multiply-add: 2 for
/// each weight of a linear layer and token, the output layer included, and 2 T (T + 1) C for the attention of
/// a layer to the tokens up to each one's own. A backward has twice as many: training takes 3 times these
/// (Kaplan et al., "Scaling laws for neural language models", 2020, section 2.1). What is computed a second
/// time, as by recomputation and in attention's backward, is not part of them, as in the utilisation (MFU) of
/// Chowdhery et al., "PaLM", 2022, appendix B; that counts attention as if no token were masked.
double forward_flops(const TransformerOptions& model, std::int64_t sequences, std::int64_t tokens);

/// The parameters of the memory formula: training of a GPT on one device.
struct GptMemoryProblem {
  TransformerOptions model;
  std::int64_t sequences = 1;            ///< that go through the model at a time
  std::int64_t tokens = 0;               ///< of each; 0: the context
  std::int64_t state_per_parameter = 2;  ///< values in f32 that the optimizer keeps: Adam 2
  std::int64_t recompute = 0;            ///< blocks in a segment (GPT::set_recompute()); 0: none
  DType compute = DType::f32;            ///< f32, bf16 or f16
};

/// Bytes by formula, by category as the allocator counts them at the peak of an update, each memory rounded
/// up to 256 bytes. In f32, for P parameters, N = sequences x tokens, width C, hidden H of the MLP, and L
/// blocks:
///
///   parameters       4 P
///   gradients        4 P
///   optimizer state  4 P    for each value per parameter
///   data             8 N    tokens and targets, of 4 bytes each
///   activations      4 N C  the embeddings; of each block, for its backward:
///                    4 N (2 C + qkv + 2 C + C)  the results of the norms, of the projection to queries, keys
///                           and values, of the attention, and of the two additions to the residual stream
///                    4 N 2 H  before and after GELU; SwiGLU has 3 H
///                    and a few values for each token: of norms, and of attention for each head
///                    4 N (C + V)  the last norm and the logits, whose gradient overwrites them
///   their gradients  4 N C  where the output layer's backward is the peak, as with a large vocabulary;
///                    else 4 N (2 C + H), in the last block's MLP, where the logits are gone
///
/// Attention keeps nothing of T x T. With recomputation in segments of k blocks the tape keeps a segment's
/// input, 4 N C, and everything for one segment at a time. In 16 bits parameters have a copy of 2 P more,
/// activations and their gradients take half; in f16 the gradient of the logits has memory of its own.
///
/// Left out: workspace of kernels, and values smaller than the rounding. Throws Error for numbers below 1
/// (state and recompute: 0), more tokens than the context, and other dtypes.
BytesByCategory estimate_memory(const GptMemoryProblem& problem);

}  // namespace ringtape
