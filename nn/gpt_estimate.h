#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/shard_layout.h"
#include "nn/transformer.h"

/// The needs of a GPT (nn/gpt.h), by formula: parameters, arithmetic, memory.
namespace ringtape {

/// Where ranks divide a model between them (docs/parallel.md), the part of one of them.
struct GptPart {
  int tensor = 1;         ///< ranks that divide each layer: tensor parallelism
  int tensor_rank = 0;    ///< which of them; where parts differ, the last has the largest
  bool sequence = false;  ///< they divide the tokens between the layers too: sequence parallelism
  int context = 1;        ///< ranks that divide the tokens of each sequence: context parallelism
  /// Stages that divide the blocks: pipeline parallelism. The first has the embeddings too, the last the
  /// norm and the output layer, tied to a copy of the embeddings.
  int stages = 1;
  int stage = 0;
  int chunks = 1;  ///< of the model that each stage has
  /// Micro-batches whose activations the stage has at a time, one of which it computes; of a stage with
  /// several chunks, each micro-batch through a chunk counts as 1 / chunks.
  double in_flight = 1;
  std::int64_t micro_batches = 2;  ///< of an update; more than 2 make no difference
};

/// A parameter of such a part.
struct GptParameter {
  std::int64_t elements = 0;
  std::int64_t room = 0;  ///< elements of the largest part that a rank of `tensor` has: its room in the arena
  bool is_part = false;   ///< false: all ranks of `tensor` have it as a whole
  std::int64_t block = -1;  ///< of the stage, whose unit it belongs to (ZeRO stage 3); -1: of none
  int chunk = 0;            ///< of the stage
  bool is_copied = false;   ///< another stage has it too: tied embeddings
};

/// The parameters in the order of named_parameters(). Throws Error for a stage without a block, for ranks
/// that do not divide the heads, for numbers of a rank or a stage that are out of range, and for context
/// ranks or micro-batches in flight below 1.
std::vector<GptParameter> parameters_of(const TransformerOptions& model, const GptPart& part = {});
/// Elements of each, of the whole model.
std::vector<std::int64_t> parameter_sizes(const TransformerOptions& model);
/// The same in the order of an arena: reversed, and in ZeRO stage 3 by units.
std::vector<GptParameter> arena_order(const std::vector<GptParameter>& parameters, int stage);
/// The layout of parameters in that order (arena_layout() of nn/shard_layout.h).
ArenaLayout gpt_layout(const std::vector<GptParameter>& order, const ArenaSharding& sharding);
/// The most elements of units in memory at a time with ZeRO stage 3: the elements that are in no block and
/// two blocks', one that computes and one that is being gathered; with recomputation the elements of one
/// block more than are recomputed together. In a stage of several chunks, the elements of one chunk. All
/// elements without reshard_after_forward.
std::int64_t gathered_elements(const std::vector<GptParameter>& order, const ArenaLayout& layout,
                               const ArenaSharding& sharding, std::int64_t recompute);
/// Elements of all parameters of the whole model.
std::int64_t parameter_count(const TransformerOptions& model);

/// FLOPs of the matrix products in a forward of `sequences` of `tokens` each, two for a multiply-add: 2 for
/// each weight of a linear layer and token, the output layer included, and 2 T (T + 1) C for the attention of
/// a layer to the tokens up to each one's own. A backward has twice the FLOPs: training takes 3 times these
/// (Kaplan et al., "Scaling laws for neural language models", 2020, section 2.1). Products computed a second
/// time, as by recomputation and in attention's backward, are not part of them, as in the utilisation (MFU)
/// of Chowdhery et al., "PaLM", 2022, appendix B; that counts attention as if no token were masked.
double forward_flops(const TransformerOptions& model, std::int64_t sequences, std::int64_t tokens);

/// FLOPs of a forward by units, as stages divide them (nn/stages.h): the embeddings, each block, the output
/// layer.
std::vector<double> costs_of_units(TransformerOptions model);

/// Blocks of each stage of a pipeline. Throws Error for fewer units than parts.
std::vector<std::int64_t> blocks_of_stages(const TransformerOptions& model, int stages, int chunks);

/// The parameters of the memory formula: training of a GPT on one device.
struct GptMemoryProblem {
  TransformerOptions model;
  std::int64_t sequences = 1;            ///< that go through the model at a time
  std::int64_t tokens = 0;               ///< of each; 0: the context
  std::int64_t state_per_parameter = 2;  ///< values in f32 that the optimizer keeps: Adam 2
  std::int64_t recompute = 0;            ///< blocks in a segment (GPT::set_recompute()); 0: none
  DType compute = DType::f32;            ///< f32, bf16 or f16
  GptPart part = {};
  ArenaSharding sharding = {};  ///< ZeRO over the ranks that divide the batch; its rank does not matter
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
///                    4 N (2 C + qkv + C + 2 C)  the results of the norms, of the projection to queries, keys
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
/// Of t ranks that divide the layers each has 1 / t of the columns of qkv, attention, H and V; with sequence
/// parallelism also 1 / t of the tokens of the residual stream, but all inputs of the divided layers: the
/// results of the norms, which are gathered (2 C of the above for a block, 3 C with SwiGLU, C for the output
/// layer), and the gradient of the logits has memory of its own. A stage
/// of a pipeline has its blocks' part, for each micro-batch in flight. ZeRO stages shard state, gradients and
/// values as arena_layout() says. Beside the shard there are at the peak, in stage 3, the gathered units, at
/// most gathered_elements(), and the gradients of the units that backward has begun: in the newest block the
/// block's and those of the output layer, in the one before it two blocks'. In stage 2, at most, two
/// neighbouring buckets, and the bucket of tied weights.
///
/// A stage after the first has the gradient of each chunk that it sent last, in an update of several
/// micro-batches; the schedule is 1F1B, interleaved with several chunks.
///
/// Of c context ranks each has 1 / c of the tokens, and in the backward of attention four shards of
/// keys and values (dist/ring_attention.h).
///
/// Left out: workspace of kernels, and values smaller than the rounding. Throws Error for numbers below 1
/// (state and recompute: 0), more tokens than the context, and other dtypes.
BytesByCategory estimate_memory(const GptMemoryProblem& problem);

}  // namespace ringtape
