#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/memory.h"
#include "nn/arena.h"
#include "nn/shard_layout.h"
#include "nn/transformer.h"

/// A GPT's needs (nn/gpt.h) by formula: parameters, FLOPs, memory.
namespace ringtape {

/// One rank's part of a model that ranks divide between them (docs/parallel.md).
struct GptPart {
  int tensor = 1;         ///< ranks that divide each layer: tensor parallelism
  int tensor_rank = 0;    ///< this rank among them; if parts differ, the last rank's is the largest
  bool sequence = false;  ///< they also divide the tokens between the layers: sequence parallelism
  int context = 1;        ///< ranks that divide the tokens of each sequence: context parallelism
  /// Stages that divide the blocks: pipeline parallelism. The first also has the embeddings; the last has the
  /// norm and the output layer, which may be tied to a copy of the embeddings.
  int stages = 1;
  int stage = 0;
  int chunks = 1;  ///< of the model that each stage has
  /// Micro-batches whose activations the stage has at a time, including the one that it computes. In a stage
  /// with several chunks a micro-batch through one chunk counts as 1 / chunks.
  double in_flight = 1;
  std::int64_t micro_batches = 2;  ///< in an update; more than 2 make no difference
};

/// A parameter of a rank's part.
struct GptParameter {
  std::int64_t elements = 0;
  std::int64_t room = 0;    ///< elements of the largest part of a tensor rank: the room in the arena
  bool is_part = false;     ///< false: every tensor rank has the whole parameter
  std::int64_t block = -1;  ///< block of the stage to whose unit it belongs (ZeRO stage 3); -1: none
  int chunk = 0;            ///< of the stage
  bool is_copied = false;   ///< another stage has it too: tied embeddings
};

/// The rank's parameters in the order of named_parameters(). Throws Error for a stage without a block, tensor
/// ranks that do not divide the heads, numbers of a rank or a stage that are out of range, and context ranks
/// or micro-batches in flight below 1.
std::vector<GptParameter> parameters_of(const TransformerOptions& model, const GptPart& part = {});
/// Elements of each parameter of the whole model, in that order.
std::vector<std::int64_t> parameter_sizes(const TransformerOptions& model);
/// These parameters in the order of an arena: reversed, and in ZeRO stage 3 sorted by units.
std::vector<GptParameter> arena_order(const std::vector<GptParameter>& parameters, int stage);
/// The layout of parameters in the order of an arena (arena_layout() of nn/shard_layout.h).
ArenaLayout gpt_layout(const std::vector<GptParameter>& order, const ArenaSharding& sharding);
/// Elements of all parameters of the whole model.
std::int64_t parameter_count(const TransformerOptions& model);

/// FLOPs of the matrix products in a forward of `sequences` of `tokens` each, counting a multiply-add as two:
/// 2 for each token and weight of a linear layer, including the output layer, and 2 T (T + 1) C for a layer's
/// causal attention. A backward has twice the FLOPs, so training takes 3 times these (Kaplan et al., "Scaling
/// laws for neural language models", 2020, section 2.1). Products computed a second time, in recomputation
/// and in the backward of attention, do not count, as in the utilisation (MFU) of Chowdhery et al., "PaLM",
/// 2022, appendix B, which however counts attention as if no token were masked.
double forward_flops(const TransformerOptions& model, std::int64_t sequences, std::int64_t tokens);
/// Those of attention, which has no weights: 2 T (T + 1) C for each sequence and layer.
double attention_flops(const TransformerOptions& model, std::int64_t sequences, std::int64_t tokens);

/// Forward FLOPs of each unit that pipeline stages divide (nn/stages.h): the embeddings, each block, the
/// output layer.
std::vector<double> costs_of_units(TransformerOptions model);

/// Blocks of each pipeline stage. Throws Error for fewer units than stages * chunks.
std::vector<std::int64_t> blocks_of_stages(const TransformerOptions& model, int stages, int chunks);

/// The parameters of the memory formula: training of a GPT, on one rank.
struct GptMemoryProblem {
  TransformerOptions model;
  std::int64_t sequences = 1;            ///< in a micro-batch
  std::int64_t tokens = 0;               ///< of each; 0: the context
  std::int64_t state_per_parameter = 2;  ///< f32 values that the optimizer keeps: Adam 2
  std::int64_t recompute = 0;            ///< blocks in a segment (GPT::set_recompute()); 0: none
  DType compute = DType::f32;            ///< f32, bf16 or f16
  GptPart part = {};
  ArenaSharding sharding = {};  ///< ZeRO over data x context ranks; its rank does not matter
};

/// Blocks of the stage whose forward runs again in backward: of each chunk those before its last segment.
std::int64_t recomputed_blocks(const GptMemoryProblem& problem);

/// Bytes by formula, in the categories of the allocator, at the peak of an update, with each allocation
/// rounded up to 256 bytes. In f32, for P parameters, N = sequences x tokens, width C, hidden size H of the
/// MLP, and L blocks:
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
/// Attention keeps nothing of size T x T. With recomputation in segments of k blocks the tape keeps each
/// segment's input, 4 N C, and everything for one segment at a time. In 16 bits parameters have a copy of 2 P
/// more, and activations and their gradients take half the bytes. In f16, and with tensor parallelism, the
/// gradient of the logits has its own memory.
///
/// Each of t tensor ranks has 1 / t of the columns of qkv, attention, H and V; with sequence parallelism also
/// 1 / t of the tokens of the residual stream, but all inputs of the divided layers: the results of the
/// norms, which are gathered (2 C of the above for a block, 3 C with SwiGLU, C for the output layer). A
/// pipeline stage has the memory of its blocks, with activations for each micro-batch in flight.
///
/// ZeRO shards optimizer state, gradients and values as in estimate_arena() (nn/memory_estimate.h). In
/// addition to the shard, stage 3 has at the peak the gathered units: at most the units outside of the blocks
/// and two blocks, one being computed and one being gathered (with recomputation one block more than a
/// segment has; in a stage of several chunks, only units of one chunk; without reshard_after_forward all
/// units); and the gradients of the units that backward has begun: of one block while it is in the last
/// block, of two while it is in the block before, and on the stage with the output layer of the unit outside
/// of the blocks. Stage 2 has at most two neighbouring buckets and the bucket of tied weights.
///
/// A pipeline stage after the first keeps, for each chunk, the gradient that it sent last, in an update of
/// several micro-batches. The schedule is 1F1B, with several chunks interleaved.
///
/// Each of c context ranks has 1 / c of the tokens, and in the backward of attention four shards of keys and
/// values (dist/ring_attention.h).
///
/// Not counted: workspace of kernels, and values smaller than the rounding. Throws Error as parameters_of()
/// does, for numbers below 1 (optimizer values and recompute: below 0), more tokens than the context, tokens
/// that the context ranks do not divide, and other dtypes.
BytesByCategory estimate_memory(const GptMemoryProblem& problem);

}  // namespace ringtape
