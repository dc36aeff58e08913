#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dist/mesh.h"
#include "nn/transformer.h"
#include "planner/cluster.h"
#include "planner/collective_time.h"
#include "planner/model_state.h"
#include "planner/parallel_traffic.h"
#include "planner/training_step.h"

/// The needs of one configuration of parallelism, which trains a GPT on a mesh: memory, traffic, and a model
/// of its step.
namespace ringtape::planner {

/// A training for which a mesh is searched.
struct ParallelRequest {
  TransformerOptions model;
  std::int64_t ranks = 8;
  std::int64_t memory = std::int64_t{80} * 1'000'000'000;  ///< bytes of a rank's device
  std::int64_t workspace = 0;                              ///< bytes of it that are not for the model
  std::int64_t global_batch = 256;                         ///< samples in an update
  DType compute = DType::bf16;
  std::int64_t state_per_parameter = 2;  ///< f32 values that the optimizer keeps
  BucketSizes bucket_sizes = {};
  std::optional<DType> compress;  ///< dtype in which gradients are sent, only with ZeRO 0
  double flops = 400e12;          ///< FLOP/s of a rank
  Cluster cluster;
  Algorithm algorithm = Algorithm::ring;
  /// Fixed values, which are not searched; none: all that divide.
  std::optional<std::int64_t> tensor, context, pipeline, micro_batch;
  std::optional<int> zero;
  /// Fixed values of ParallelConfig: for configurations with several tensor ranks, with several stages, with
  /// ZeRO stage 3, and for all.
  std::optional<bool> sequence_parallel;
  std::optional<std::int64_t> chunks;
  std::optional<bool> reshard;
  std::optional<std::int64_t> recompute;
};

/// How ranks divide a training: its degrees of parallelism, and the settings that go with them.
struct ParallelConfig {
  MeshSizes mesh;
  int zero = 0;
  bool reshard = true;  ///< ArenaSharding::reshard_after_forward
  bool sequence_parallel = false;
  std::int64_t recompute = 0;      ///< blocks in a segment; 0: none
  std::int64_t chunks = 1;         ///< parts of the model on each stage
  std::int64_t micro_batch = 1;    ///< samples
  std::int64_t micro_batches = 1;  ///< of a rank in an update
  bool every_micro_batch = false;  ///< reduces gradients after each micro-batch, as without no_sync()
};

/// The needs of a configuration. Memory and traffic are those of the stage that needs the most memory: the
/// first, whose ranks have the most micro-batches in flight, the last, with the output layer, or one between
/// with more blocks.
struct ParallelPlan {
  ParallelConfig config;
  std::vector<MemoryRow> memory;  ///< of a rank
  std::int64_t bytes = 0;         ///< their sum
  ParallelTraffic traffic;        ///< of a rank in an update
  double bytes_sent = 0;          ///< by bytes_sent() of dist/traffic.h
  double bubble = 0;              ///< waiting, as a share of a stage's time: b / (b + m), where b is
                                  ///< bubble_in_micro_batches()
  double step = 0;                ///< seconds
  double computing = 0;           ///< seconds of it spent computing, without the bubble
  double utilisation = 0;         ///< FLOPs of the model over step x ranks x `flops`
};

/// By how many micro-batches a pipeline's step is longer than one stage's work: (p - 1) / v for m >= p
/// micro-batches (Narayanan et al., "Efficient large-scale language model training on GPU clusters using
/// Megatron-LM", 2021, section 2.2). With fewer, all micro-batches have passed a stage in one chunk
/// before the first of them comes back for the next chunk: then the step is p + (m - 1) / v micro-batches
/// long.
double bubble_in_micro_batches(const ParallelConfig& config);

/// A configuration's memory and traffic, without its time. It must be possible: see reason_against().
ParallelPlan plan_of(const ParallelRequest& request, const ParallelConfig& config);
/// The same for a rank of this stage.
ParallelPlan plan_of_stage(const ParallelRequest& request, const ParallelConfig& config, int stage);

/// A step of the slowest stage. The time of a micro-batch is that of the stage's FLOPs, plus its collectives
/// between tensor ranks and its messages between stages, which nothing hides. In the ring of context ranks
/// the attention to one shard hides the message with the next shard, as far as it takes as long; in backward
/// the gradients are sent after it. If the group of stages spans nodes, all its messages count as inter-node,
/// since the slowest are. The pipeline adds bubble_in_micro_batches() micro-batches. Buckets are reduced over
/// the group of data x context ranks, group_of_ranks(cluster, tensor ranks).
StepModel step_of(const ParallelRequest& request, const ParallelConfig& config);

/// Throws Error for sequence parallelism of one tensor rank and for several chunks of one stage: they have no
/// effect. Without a value, a size is searched.
void check_flags_have_effect(const std::optional<std::int64_t>& tensor, bool sequence,
                             const std::optional<std::int64_t>& stages, std::int64_t chunks);

/// Why a mesh is not possible with these ranks, heads, layers, nodes and fixed values; empty if it is
/// possible.
std::string reason_against(const ParallelRequest& request, const MeshSizes& mesh);
/// Whether each stage has a block, and each of its chunks a unit.
bool has_blocks(const ParallelRequest& request, std::int64_t stages, std::int64_t chunks);

/// The numbers of chunks for this many stages: the fixed one, or 1, 2 and 4, as far as they are possible.
std::vector<std::int64_t> numbers_of_chunks(const ParallelRequest& request, std::int64_t stages);

/// Whether tensor ranks can divide a rank's tokens, for sequence parallelism.
bool divides_tokens(const ParallelRequest& request, const MeshSizes& mesh);

/// A group of ranks that are `stride` ranks apart, as its own cluster: with fewer ranks in a node, and their
/// share of the node's adapters.
Cluster group_of_ranks(const Cluster& cluster, std::int64_t stride);

}  // namespace ringtape::planner
