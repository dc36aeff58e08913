#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "planner/failures.h"
#include "planner/parallel_way.h"
#include "planner/training_step.h"

namespace ringtape::planner {

/// A GPT that ranks divide between them. Its memory, traffic and step are those of plan_of() and step_of().
struct ScaleMesh {
  ParallelRequest request;  ///< ranks, batch and cluster are those of the ScaleRequest
  ParallelWay way;          ///< data ranks and micro-batches follow from the number of ranks

  /// Ranks that divide the parameters.
  std::int64_t part_ranks() const { return std::int64_t{way.mesh.tensor} * way.mesh.pipeline; }
  /// Ranks that compute a sample together.
  std::int64_t model_ranks() const { return part_ranks() * way.mesh.context; }
  /// " x 2 context", or nothing.
  std::string context_text() const;
};

/// A training run, to be simulated with many numbers of ranks.
struct ScaleRequest {
  // The model, and the computation of one rank.
  std::int64_t parameters = 0;
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 1;  ///< tokens in a sample
  /// FLOP/s that a rank reaches; forward takes 2 and backward 4 FLOPs for a parameter and token (Kaplan et
  /// al., "Scaling laws for neural language models", 2020, section 2.1).
  double flops = 400e12;
  /// FLOPs of a sample's forward, in place of the 2 for a parameter and token: forward_flops() of
  /// nn/gpt_estimate.h, which has attention, and no products of embeddings. Backward has twice as many.
  std::optional<double> sample_flops;
  std::optional<double> forward;   ///< seconds of a micro-batch, in place of `flops`
  std::optional<double> backward;  ///< seconds of a micro-batch, in place of `flops`
  double update = 0;               ///< seconds of the optimizer on all parameters
  /// In place of all of these and of bytes below; without it ranks divide the batch alone.
  std::optional<ScaleMesh> mesh;
  // The batch: by default it grows with the ranks.
  std::int64_t accumulation = 1;
  std::optional<std::int64_t> global_batch;  ///< samples, independent of the number of ranks
  // Communication.
  Cluster cluster;
  Algorithm algorithm = Algorithm::ring;
  std::int64_t gradient_bytes = 2;                    ///< bytes of a gradient when it is reduced
  std::int64_t parameter_bytes = 2;                   ///< bytes of a parameter when ZeRO gathers it
  double compression = 1;                             ///< bytes of gradients over bytes sent
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
  // What to simulate.
  std::vector<std::int64_t> ranks;
  /// Ranks up to which steps are simulated message by message, if that is at most 10^8 messages.
  std::int64_t messages_up_to = 512;
};

/// The results for one number of ranks.
struct ScalePoint {
  std::int64_t ranks = 0;  ///< all: with a mesh model_ranks() x data ranks
  std::int64_t accumulation = 0;
  std::int64_t global_batch = 0;  ///< samples
  StepTimes times = {};
  double throughput = 0;  ///< samples a second of all ranks, without failures
  double efficiency = 0;  ///< throughput over (that of one rank x ranks)
  bool by_messages = false;
  double interval = 0;  ///< seconds between two checkpoints; 0 where nothing fails
  double goodput = 1;   ///< share of the time not lost to failures and checkpoints
  // With a mesh, of the rank with the most memory:
  std::int64_t memory = 0;  ///< bytes
  double bytes_sent = 0;    ///< in a step, by bytes_sent() of dist/traffic.h
};

/// The request with another algorithm or bucket, over the same ranks.
struct ScaleVariant {
  Algorithm algorithm;
  std::int64_t bucket;  ///< bytes of gradients in the largest
  std::vector<ScalePoint> points;
  /// The fewest ranks at which communication takes more than kHidden of a step; none up to the most.
  std::optional<std::int64_t> exposed_from;
  /// The fewest ranks at which the all-reduce (with ZeRO the reduce-scatter) of that bucket waits longer for
  /// latencies than for bytes.
  std::optional<std::int64_t> latency_from;

  /// A share of the step.
  static constexpr double kHidden = 0.05;
};

struct ScalePlan {
  double forward = 0, backward = 0;  ///< seconds of a micro-batch
  std::size_t buckets = 0;
  std::int64_t most = 0;  ///< the largest simulated number of ranks
  /// ZeRO's collectives have no tree: where one was requested, this is a ring.
  ScaleVariant asked;
  std::vector<ScaleVariant> others;  ///< larger buckets, and the other algorithms: in closed form, no jitter
  std::vector<std::string> notes;
};

/// 1, 2, 4, ... ranks of a node, then 1, 2, 4, ... nodes, and the most whole nodes that are at most `most`;
/// with models of several ranks as many models. Throws Error for models that would lie across nodes.
std::vector<std::int64_t> doubling_ranks(const Cluster& cluster, std::int64_t most,
                                         std::int64_t model_ranks = 1);

/// Bytes of each bucket: of the requested sizes for the first and the others, the rest for the last.
std::vector<double> bucket_bytes(const ScaleRequest& request);

/// Throws Error for numbers that are out of range or contradict each other.
ScalePlan plan_scale(const ScaleRequest& request);

std::string scale_text(const ScaleRequest& request, const ScalePlan& plan);
Json scale_json(const ScaleRequest& request, const ScalePlan& plan);
/// Throughput, efficiency and exposed communication against ranks, as an SVG picture.
std::string scale_svg(const ScalePlan& plan);

}  // namespace ringtape::planner
