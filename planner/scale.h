#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "planner/failures.h"
#include "planner/parallel_config.h"
#include "planner/training_step.h"

namespace ringtape::planner {

/// A GPT that ranks divide between them. Memory, traffic and step are those of plan_of() and step_of().
struct ScaleMesh {
  ParallelRequest request;  ///< ranks, batch and cluster come from the ScaleRequest
  ParallelConfig config;    ///< data ranks and micro-batches follow from the number of ranks

  /// Ranks that divide the parameters.
  std::int64_t part_ranks() const { return std::int64_t{config.mesh.tensor} * config.mesh.pipeline; }
  /// Ranks that compute a sample together.
  std::int64_t model_ranks() const { return part_ranks() * config.mesh.context; }
  /// " x 2 context", or an empty text.
  std::string context_text() const;
};

/// A training run that is simulated on different numbers of ranks.
struct ScaleRequest {
  // The model, and the computation of one rank.
  std::int64_t parameters = 0;
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 1;  ///< tokens in a sample
  /// FLOP/s that a rank reaches. Forward takes 2 and backward 4 FLOPs for each parameter and token (Kaplan et
  /// al., "Scaling laws for neural language models", 2020, section 2.1).
  double flops = 400e12;
  /// FLOPs of a sample's forward, instead of 2 for each parameter and token: forward_flops() of
  /// nn/gpt_estimate.h, which counts attention, and no products for the embeddings. Backward has twice as
  /// many.
  std::optional<double> sample_flops;
  std::optional<double> forward;   ///< seconds of a micro-batch, instead of `flops`
  std::optional<double> backward;  ///< seconds of a micro-batch, instead of `flops`
  double optimizer = 0;            ///< seconds of the optimizer on all parameters
  /// Instead of the parameters, sequence, sample_flops, forward and backward above, and of gradient_bytes,
  /// parameter_bytes and compression below. Without it ranks divide only the batch.
  std::optional<ScaleMesh> mesh;
  // The batch, which by default grows with the ranks.
  std::int64_t accumulation = 1;
  std::optional<std::int64_t> global_batch;  ///< samples, independent of the number of ranks
  // Communication.
  Cluster cluster;
  Algorithm algorithm = Algorithm::ring;
  std::int64_t gradient_bytes = 2;                    ///< bytes of a gradient when it is reduced
  std::int64_t parameter_bytes = 2;                   ///< bytes of a parameter when ZeRO gathers it
  double compression = 1;                             ///< bytes of gradients over sent bytes
  std::int64_t first_bucket = std::int64_t{1} << 20;  ///< bytes of gradients
  std::int64_t bucket = std::int64_t{25} << 20;       ///< bytes of gradients
  std::int64_t segment = std::int64_t{256} << 10;     ///< bytes of a tree's messages
  bool overlap = true;
  bool every_micro_batch = false;
  int zero = 0;
  // Stragglers and failures.
  JitterRequest jitter;
  std::int64_t steps = 1;          ///< steps to simulate; times are means over them
  double rank_mtbf_hours = 0;      ///< mean time between failures of one rank, 1 to 10^9; 0: never
  double checkpoint = 0;           ///< seconds to write one
  double restart = 0;              ///< seconds
  double checkpoint_interval = 0;  ///< seconds of training; 0: the best, by Daly (2006)
  // The simulated runs.
  std::vector<std::int64_t> ranks;
  /// The largest number of ranks whose steps are simulated message by message, unless that takes more than
  /// 10^8 messages. With a mesh: of data x context ranks.
  std::int64_t messages_up_to = 512;
};

/// The results for one number of ranks.
struct ScalePoint {
  std::int64_t ranks = 0;  ///< all ranks: with a mesh model_ranks() x data ranks
  std::int64_t accumulation = 0;
  std::int64_t global_batch = 0;  ///< samples
  StepTimes times = {};
  double throughput = 0;  ///< samples a second of all ranks, without failures
  double efficiency = 0;  ///< throughput over (throughput of one rank, without recomputation, x ranks)
  bool by_messages = false;
  double interval = 0;  ///< seconds between two checkpoints; 0 without failures
  double goodput = 1;   ///< share of the time not lost to failures and checkpoints
  // With a mesh, of the rank with the most memory:
  std::int64_t memory = 0;  ///< bytes
  double bytes_sent = 0;    ///< in a step, by bytes_sent() of dist/traffic.h
};

/// The request with one algorithm and bucket size, over the same ranks.
struct ScaleVariant {
  Algorithm algorithm;
  std::int64_t bucket;  ///< bytes of gradients in the largest bucket
  std::vector<ScalePoint> points;
  /// The fewest ranks at which communication adds more than kHidden of a step's time; none if there are none
  /// up to the largest number of ranks.
  std::optional<std::int64_t> exposed_from;
  /// The fewest ranks at which the all-reduce of that bucket (with ZeRO the reduce-scatter) takes longer for
  /// latencies than for bytes.
  std::optional<std::int64_t> latency_from;

  /// A share of the step.
  static constexpr double kHidden = 0.05;
};

/// The result of a simulation.
struct ScalePlan {
  double forward = 0, backward = 0;  ///< seconds of a micro-batch
  std::size_t buckets = 0;
  std::int64_t most = 0;  ///< the largest simulated number of ranks
  /// The requested variant. ZeRO's collectives have no tree: if one was requested, this is a ring.
  ScaleVariant asked;
  std::vector<ScaleVariant> others;  ///< larger buckets, and the other algorithms: in closed form, no jitter
  std::vector<std::string> notes;
};

/// 1, 2, 4, ... ranks of a node, then 1, 2, 4, ... nodes, and last the largest number of whole nodes with at
/// most `most` ranks; with models of several ranks the same numbers of models, and with pipeline `stages`
/// last the largest number at which the ranks of each stage fill whole nodes, if there is one. Throws Error
/// for models that do not fit evenly into nodes.
std::vector<std::int64_t> doubling_ranks(const Cluster& cluster, std::int64_t most,
                                         std::int64_t model_ranks = 1, std::int64_t stages = 1);

/// Bytes of each bucket: the requested sizes of the first and the other buckets, and the rest in the last.
std::vector<double> bucket_bytes(const ScaleRequest& request);

/// Throws Error for numbers that are out of range or contradict each other.
ScalePlan plan_scale(const ScaleRequest& request);

/// The plan as tables, and as a JSON object for scripts.
std::string scale_text(const ScaleRequest& request, const ScalePlan& plan);
Json scale_json(const ScaleRequest& request, const ScalePlan& plan);
/// Throughput, efficiency and exposed communication over the number of ranks, as an SVG picture.
std::string scale_svg(const ScalePlan& plan);

}  // namespace ringtape::planner
