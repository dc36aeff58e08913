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

/// What one way of training a GPT on a mesh takes: memory, traffic, and a model of its step.
namespace ringtape::planner {

struct ParallelRequest {
  TransformerOptions model;
  std::int64_t ranks = 8;
  std::int64_t memory = std::int64_t{80} * 1'000'000'000;  ///< bytes of a rank
  std::int64_t workspace = 0;                              ///< bytes of it that are not the model's
  std::int64_t global_batch = 256;                         ///< samples in an update
  DType compute = DType::bf16;
  std::int64_t state_per_parameter = 2;  ///< values in f32 that the optimizer keeps
  BucketSizes bucket_sizes = {};
  std::optional<DType> compress;  ///< of gradients on their way, with ZeRO 0 alone
  double flops = 400e12;          ///< a second, of a rank
  Cluster cluster;
  Algorithm algorithm = Algorithm::ring;
  /// What is not searched; none: all that divide.
  std::optional<std::int64_t> tensor, context, pipeline, micro_batch;
  std::optional<int> zero;
  /// The same of ParallelWay: of ways with tensor ranks, with stages, of ZeRO stage 3, and of all.
  std::optional<bool> sequence;
  std::optional<std::int64_t> chunks;
  std::optional<bool> reshard;
  std::optional<std::int64_t> recompute;
};

/// One way of training.
struct ParallelWay {
  MeshSizes mesh;
  int zero = 0;
  bool reshard = true;             ///< ArenaSharding::reshard_after_forward
  bool sequence = false;           ///< sequence parallelism
  std::int64_t recompute = 0;      ///< blocks in a segment; 0: none
  std::int64_t chunks = 1;         ///< of the model that each stage has
  std::int64_t micro_batch = 1;    ///< samples
  std::int64_t micro_batches = 1;  ///< of a rank in an update
};

/// What it takes. Of stages the one that needs the most memory: the first, whose ranks have the most
/// micro-batches in flight, the last, with the output layer, or one between with more blocks.
struct ParallelPlan {
  ParallelWay way;
  std::vector<MemoryRow> memory;  ///< of a rank
  std::int64_t bytes = 0;         ///< their sum
  ParallelTraffic traffic;        ///< of a rank in an update
  double bytes_sent = 0;          ///< by bytes_sent() of dist/traffic.h
  double bubble = 0;     ///< share of the time that a stage waits for others: b / (b + m) with bubble_of() b
  double step = 0;       ///< seconds
  double computing = 0;  ///< seconds of it, without the bubble
  double utilisation = 0;  ///< FLOPs of the model over those of `flops` in the time of a step
};

/// How many micro-batches longer a pipeline's step is than one stage's work: (p - 1) / v for m >= p
/// micro-batches (Narayanan et al., "Efficient large-scale language model training on GPU clusters using
/// Megatron-LM", 2021, section 2.2). With fewer a chunk's micro-batches have passed a stage before the first
/// of them comes back for the next chunk: then the step is p + (m - 1) / v micro-batches long.
double bubble_of(const ParallelWay& way);

/// A way's memory and traffic, without its time. The way must be possible (reason_against()).
ParallelPlan plan_of(const ParallelRequest& request, const ParallelWay& way);
/// The same of a rank of this stage.
ParallelPlan plan_of_stage(const ParallelRequest& request, const ParallelWay& way, int stage);

/// A step of the slowest stage. The time of a micro-batch is that of the stage's FLOPs, plus its collectives
/// between tensor ranks and its messages between stages, which nothing hides. In the ring of context ranks
/// the attention to a shard hides the next one's message as far as it takes as long, and gradients are sent
/// after it. Where the line of stages leaves a node, all their messages count as between nodes, as the
/// slowest do. The pipeline adds bubble_of() micro-batches. Buckets are reduced along the line of data x
/// context ranks, line_of_ranks(cluster, tensor ranks).
StepModel step_of(const ParallelRequest& request, const ParallelWay& way);

/// Why a mesh is not possible with these ranks, heads, layers, nodes and what is not searched; empty for one
/// that is.
std::string reason_against(const ParallelRequest& request, const MeshSizes& mesh);
/// Whether each stage has a block, and each of its chunks a unit.
bool has_blocks(const ParallelRequest& request, std::int64_t stages, std::int64_t chunks);

/// Whether tensor ranks can divide the tokens of a rank: sequence parallelism.
bool divides_tokens(const ParallelRequest& request, const MeshSizes& mesh);

/// The line of ranks of which neighbours are `stride` ranks apart, as a cluster of its own: with fewer of
/// them in a node, and their share of the node's adapters.
Cluster line_of_ranks(const Cluster& cluster, std::int64_t stride);

}  // namespace ringtape::planner
