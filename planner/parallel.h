#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dist/mesh.h"
#include "io/json.h"
#include "planner/cluster.h"
#include "planner/collective_time.h"
#include "planner/model_state.h"
#include "planner/parallel_traffic.h"
#include "planner/transformer.h"

/// Which mesh trains a GPT fastest: every way of dividing batch and model over a number of ranks, with its
/// memory (nn/gpt_estimate.h), its traffic (parallel_traffic.h) and the time of a step (training_step.h).
namespace ringtape::planner {

struct ParallelRequest {
  Transformer model;
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
  std::optional<std::int64_t> tensor, pipeline, micro_batch;
  std::optional<int> zero;
};

/// One way of training.
struct ParallelWay {
  MeshSizes mesh;
  int zero = 0;
  bool sequence = false;           ///< sequence parallelism
  std::int64_t recompute = 0;      ///< blocks in a segment; 0: none
  std::int64_t chunks = 1;         ///< of the model that each stage has
  std::int64_t micro_batch = 1;    ///< samples
  std::int64_t micro_batches = 1;  ///< of a rank in an update
};

/// What it takes. Of stages the first, whose ranks have the most micro-batches in flight, or the last, with
/// the output layer: whichever needs more memory.
struct ParallelPlan {
  ParallelWay way;
  std::vector<MemoryRow> memory;  ///< of a rank
  std::int64_t bytes = 0;         ///< their sum
  ParallelTraffic traffic;        ///< of a rank in an update
  double bytes_sent = 0;          ///< by bytes_sent() of dist/traffic.h
  double bubble = 0;       ///< share of the time that a stage waits for others: (p - 1) / (v m + p - 1)
  double step = 0;         ///< seconds
  double computing = 0;    ///< seconds of it, without the bubble
  double utilisation = 0;  ///< FLOPs of the model over those of `flops` in the time of a step
};

/// Ways of a mesh and ZeRO stage that are not possible.
struct LeftOut {
  MeshSizes mesh;
  int zero = 0;
  std::int64_t least_bytes = 0;  ///< of the way with the least memory, where that is the reason; else 0
  std::string reason;
};

struct ParallelPlans {
  std::vector<ParallelPlan> plans;  ///< of each mesh and ZeRO stage the fastest way that fits, by their time
  std::vector<LeftOut> left_out;
  std::int64_t ways = 0;  ///< that were computed
};

/// Goes through all tensor x pipeline x data ranks, ZeRO stages, sequence parallelism, recomputation of no or
/// of each block, 1, 2 and 4 chunks a stage, and micro-batches of 1, 2, 4, ... samples.
///
/// The time of a micro-batch is that of the FLOPs of the slowest stage, plus its collectives
/// between tensor ranks and its messages between stages, which nothing hides. Data-parallel collectives
/// overlap as in simulate_steps(). The pipeline adds (p - 1) / v micro-batches (Narayanan et al., "Efficient
/// large-scale language model training on GPU clusters using Megatron-LM", 2021, section 2.2).
///
/// Neighbouring ranks differ in the tensor dimension, then in data, then in pipeline (dist/mesh.h); lines of
/// ranks that leave a node at the same time share its adapters.
///
/// Throws Error for sizes out of range, for ranks that do not fill nodes, and where nothing fits, with the
/// least memory that any way would take.
ParallelPlans plan_parallel(const ParallelRequest& request);

/// The line of ranks of which neighbours are `stride` ranks apart, as a cluster of its own: with fewer of
/// them in a node, and their share of the node's adapters.
Cluster line_of_ranks(const Cluster& cluster, std::int64_t stride);

/// The first `most` plans as a table, all of the first, and why others are left out.
std::string parallel_text(const ParallelRequest& request, const ParallelPlans& plans, std::int64_t most);
Json parallel_json(const ParallelRequest& request, const ParallelPlans& plans);

}  // namespace ringtape::planner
