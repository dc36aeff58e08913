#include "planner/scale.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ceil_div.h"
#include "core/divisors.h"
#include "core/error.h"
#include "planner/collective_finish.h"
#include "planner/collective_messages.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

constexpr std::int64_t kMaxRanks = 1'000'000;
constexpr std::int64_t kMaxBuckets = 20'000;
constexpr double kMaxSeconds = 1e9;

void check_seconds(const char* name, double seconds) {
  check(seconds >= 0 && seconds <= kMaxSeconds, "{} must be from 0 to {:g} seconds, found {}", name,
        kMaxSeconds, seconds);
}

/// The mesh of this many ranks, with `accumulation` micro-batches.
ScaleMesh mesh_of(const ScaleRequest& request, std::int64_t ranks, std::int64_t accumulation) {
  ScaleMesh mesh = *request.mesh;
  mesh.config.mesh.data = static_cast<int>(ranks / mesh.model_ranks());
  mesh.config.zero = mesh.config.mesh.data_and_context() > 1 ? request.zero : 0;
  mesh.config.micro_batch = request.micro_batch;
  mesh.config.micro_batches = accumulation;
  mesh.config.every_micro_batch = request.every_micro_batch;
  mesh.request.ranks = ranks;
  mesh.request.cluster = request.cluster;
  mesh.request.algorithm = request.algorithm;
  mesh.request.flops = request.flops;
  mesh.request.bucket_sizes = {.first_bytes = request.first_bucket, .bytes = request.bucket};
  mesh.request.global_batch = product(product(request.micro_batch, accumulation), mesh.config.mesh.data);
  return mesh;
}

std::int64_t model_ranks(const ScaleRequest& request) {
  return request.mesh ? request.mesh->model_ranks() : 1;
}

/// Ranks that divide the parameters. Gradients are reduced over the others, data x context.
std::int64_t part_ranks(const ScaleRequest& request) {
  return request.mesh ? request.mesh->part_ranks() : 1;
}

/// The group of ranks that reduce gradients.
Cluster mean_group(const ScaleRequest& request) {
  return request.mesh ? group_of_ranks(request.cluster, request.mesh->config.mesh.tensor) : request.cluster;
}

/// Seconds of a micro-batch's forward.
double forward_by_flops(const ScaleRequest& request) {
  if (request.sample_flops)
    return *request.sample_flops * static_cast<double>(request.micro_batch) / request.flops;
  const double tokens = static_cast<double>(product(request.micro_batch, request.sequence));
  return 2 * static_cast<double>(request.parameters) * tokens / request.flops;
}

void check_model(const ScaleRequest& request) {
  if (!request.mesh) check_size("the number of parameters", request.parameters);
  check_size("the micro-batch", request.micro_batch);
  check_size("the sequence length", request.sequence);
  check_size("the accumulation steps", request.accumulation);
  check(request.flops > 0 && std::isfinite(request.flops), "the FLOP/s must be above 0, found {}",
        request.flops);
  check(!request.sample_flops || (*request.sample_flops > 0 && std::isfinite(*request.sample_flops)),
        "the FLOPs of a sample must be above 0, found {}", request.sample_flops.value_or(0));
  check(request.forward.has_value() == request.backward.has_value(),
        "forward and backward are given together, or neither is");
  if (request.forward) {
    check_seconds("forward", *request.forward);
    check_seconds("backward", *request.backward);
    check(*request.forward + *request.backward > 0, "forward and backward take no time");
  } else {
    const double forward = forward_by_flops(request);
    check(2 * forward <= kMaxSeconds,
          "at {:g} FLOP/s forward takes {:.3g} seconds, and backward twice that: expected at most {:g}",
          request.flops, forward, kMaxSeconds);
  }
  check_seconds("the optimizer's step", request.optimizer);
  if (request.global_batch) {
    check_size("the global batch", *request.global_batch);
    check(request.micro_batch <= *request.global_batch,
          "the micro-batch of {} is larger than the global batch of {}", request.micro_batch,
          *request.global_batch);
    check(request.accumulation == 1,
          "a global batch says how many accumulation steps there are: leave one out");
  }
}

void check_communication(const ScaleRequest& request) {
  check_cluster(request.cluster);
  check(request.gradient_bytes >= 1 && request.gradient_bytes <= 8, "a gradient has 1 to 8 bytes, found {}",
        request.gradient_bytes);
  check(request.parameter_bytes >= 1 && request.parameter_bytes <= 8,
        "a parameter has 1 to 8 bytes, found {}", request.parameter_bytes);
  check(request.compression >= 1 && request.compression <= 1000,
        "the compression must be 1 to 1000, found {}", request.compression);
  check_size("the first bucket's bytes", request.first_bucket);
  check_size("a bucket's bytes", request.bucket);
  check_size("a segment's bytes", request.segment);
  check(request.zero >= 0 && request.zero <= 3, "ZeRO has stages 0 to 3, found {}", request.zero);
  check(!request.every_micro_batch || request.accumulation > 1 || request.global_batch,
        "--sync-each-micro-batch has no effect: expected --accumulation above 1 or --batch-size with it");
}

void check_disturbances(const ScaleRequest& request) {
  check(request.steps >= 1 && request.steps <= 10'000, "the steps must be 1 to 10000, found {}",
        request.steps);
  check(request.rank_mtbf_hours == 0 || (request.rank_mtbf_hours >= 1 && request.rank_mtbf_hours <= 1e9),
        "a rank's MTBF must be from 1 to 1e9 hours, found {}", request.rank_mtbf_hours);
  check_seconds("a checkpoint", request.checkpoint);
  check_seconds("a restart", request.restart);
  check_seconds("the checkpoint interval", request.checkpoint_interval);
  check(request.rank_mtbf_hours == 0 || request.checkpoint > 0,
        "a run that fails needs checkpoints: how many seconds does one take?");
}

/// Checks the mesh with this number of ranks.
void check_mesh(const ScaleRequest& request, std::int64_t ranks) {
  const std::int64_t of_model = request.mesh->model_ranks();
  check(ranks % of_model == 0,
        "{}: expected a multiple of the {} of a model, {} tensor{} x {} pipeline, the nearest is {}",
        counted(ranks, "rank"), of_model, request.mesh->config.mesh.tensor, request.mesh->context_text(),
        request.mesh->config.mesh.pipeline, nearest_multiple(ranks, of_model));
  const ScaleMesh mesh = mesh_of(request, ranks, request.accumulation);
  check_flags_have_effect(mesh.config.mesh.tensor, mesh.config.sequence_parallel, mesh.config.mesh.pipeline,
                          mesh.config.chunks);
  const std::int64_t sequence = mesh.request.model.context, context = mesh.config.mesh.context;
  check(!mesh.config.sequence_parallel || sequence % (context * mesh.config.mesh.tensor) == 0,
        "{} tensor ranks do not divide a sequence of {}", mesh.config.mesh.tensor,
        counted(sequence / context, "token"));
  check(has_blocks(mesh.request, mesh.config.mesh.pipeline, mesh.config.chunks),
        "a model of {} is too small for {} of {}: expected a block for each stage and a unit for each chunk",
        counted(mesh.request.model.layers, "layer"), counted(mesh.config.mesh.pipeline, "stage"),
        counted(mesh.config.chunks, "chunk"));
  check(reason_against(mesh.request, mesh.config.mesh).empty(), "{}: {}", counted(ranks, "rank"),
        reason_against(mesh.request, mesh.config.mesh));
}

void check_ranks(const ScaleRequest& request) {
  check(!request.ranks.empty(), "no number of ranks to look at");
  for (std::int64_t ranks : request.ranks) {
    check(ranks >= 1 && ranks <= kMaxRanks, "the number of ranks must be from 1 to {}, found {}", kMaxRanks,
          ranks);
    check_ranks(request.cluster, ranks);
    if (request.mesh) check_mesh(request, ranks);
  }
}

/// A step of this many ranks.
StepModel step_model(const ScaleRequest& request, std::int64_t ranks, std::int64_t accumulation) {
  StepModel model;
  if (request.mesh) {
    const ScaleMesh mesh = mesh_of(request, ranks, accumulation);
    model = step_of(mesh.request, mesh.config);
    model.together = mesh.part_ranks();
  } else {
    const double forward = forward_by_flops(request);
    model.forward = request.forward.value_or(forward);
    model.backward = request.backward.value_or(2 * forward);
    model.buckets = bucket_bytes(request);
    for (double& bytes : model.buckets) bytes /= request.compression;
    model.gathered_per_gradient = request.compression * static_cast<double>(request.parameter_bytes) /
                                  static_cast<double>(request.gradient_bytes);
    model.zero = request.zero;
  }
  model.optimizer = request.optimizer / static_cast<double>(part_ranks(request));
  if (request.zero > 0) model.optimizer /= static_cast<double>(ranks / part_ranks(request));
  model.accumulation = accumulation;
  model.overlap = request.overlap;
  model.every_micro_batch = request.every_micro_batch;
  return model;
}

CollectiveProblem collective_of(const ScaleRequest& request, Collective kind, double bytes,
                                std::int64_t ranks) {
  return {.kind = kind,
          .algorithm = request.algorithm,
          .ranks = ranks,
          .bytes = bytes,
          .segment = static_cast<double>(request.segment)};
}

/// The number of messages of all steps, counted from the collectives that a step of one rank calls.
double count_messages(const ScaleRequest& request, const StepModel& model, std::int64_t ranks) {
  double messages = 0;
  const Cluster group = mean_group(request);
  simulate_steps(model, 1, 1, Jitter({}), [&](Collective kind, double bytes, std::vector<double>&) {
    messages += message_count(group, collective_of(request, kind, bytes, ranks));
  });
  return messages * static_cast<double>(request.steps);
}

Communicate communication(const ScaleRequest& request, std::int64_t ranks, bool by_messages) {
  return [&request, group = mean_group(request), ranks, by_messages](Collective kind, double bytes,
                                                                     std::vector<double>& times) {
    const CollectiveProblem problem = collective_of(request, kind, bytes, ranks);
    if (by_messages) {
      simulate_collective(group, problem, times);
      return;
    }
    if (std::ssize(times) == ranks) {
      finish_collective(group, problem, times);
    } else {
      times[0] += collective_time(group, problem);  // the same time for all of them
    }
  };
}

FailureModel failures_of(const ScaleRequest& request, std::int64_t ranks) {
  return {.mtbf = request.rank_mtbf_hours * 3600 / static_cast<double>(ranks),
          .checkpoint = request.checkpoint,
          .restart = request.restart};
}

void add_failures(const ScaleRequest& request, ScalePoint& point) {
  if (request.rank_mtbf_hours == 0) return;
  const FailureModel model = failures_of(request, point.ranks);
  point.interval = request.checkpoint_interval > 0 ? request.checkpoint_interval : daly_interval(model);
  point.goodput = goodput(model, point.interval);
}

std::int64_t accumulation_of(const ScaleRequest& request, std::int64_t ranks) {
  if (!request.global_batch) return request.accumulation;
  return ceil_div(*request.global_batch, product(request.micro_batch, ranks / model_ranks(request)));
}

/// Seconds of one rank for a sample; for a model that ranks divide, by its FLOPs.
double seconds_of_a_sample(const ScaleRequest& request) {
  if (request.mesh) {
    const TransformerOptions& model = request.mesh->request.model;
    const double samples =
        static_cast<double>(product(accumulation_of(request, model_ranks(request)), request.micro_batch));
    return 3 * forward_flops(model, 1, model.context) / request.flops + request.optimizer / samples;
  }
  const std::int64_t accumulation = accumulation_of(request, 1);
  const StepModel model = step_model(request, 1, accumulation);
  return (model.forward + model.backward + model.optimizer / static_cast<double>(accumulation)) /
         static_cast<double>(request.micro_batch);
}

ScalePoint point_of(const ScaleRequest& request, std::int64_t ranks, bool may_simulate) {
  constexpr double kMaxMessages = 1e8;  // some seconds
  const std::int64_t accumulation = accumulation_of(request, ranks);
  const std::int64_t own_samples = product(request.micro_batch, accumulation);
  const std::int64_t data_and_context = ranks / part_ranks(request);
  const StepModel model = step_model(request, ranks, accumulation);
  ScalePoint point{.ranks = ranks,
                   .accumulation = accumulation,
                   .global_batch = product(own_samples, ranks / model_ranks(request))};
  point.by_messages = may_simulate && data_and_context > 1 && data_and_context <= request.messages_up_to &&
                      count_messages(request, model, data_and_context) <= kMaxMessages;
  // Without jitter all ranks take the same time, so one rank stands for all.
  const bool alike = !point.by_messages && request.jitter.variation == 0;
  point.times = simulate_steps(model, alike ? 1 : data_and_context, request.steps, Jitter(request.jitter),
                               communication(request, data_and_context, point.by_messages));
  point.throughput = static_cast<double>(point.global_batch) / point.times.step;
  point.efficiency = point.throughput * seconds_of_a_sample(request) / static_cast<double>(ranks);
  add_failures(request, point);
  if (!request.mesh) return point;
  const ScaleMesh mesh = mesh_of(request, ranks, accumulation);
  const ParallelPlan plan = plan_of(mesh.request, mesh.config);
  point.memory = plan.bytes;
  point.bytes_sent = plan.bytes_sent;
  return point;
}

/// The largest number of ranks to simulate. Ranks beyond the number of micro-batches in the batch would be
/// idle.
std::int64_t max_with_work(const ScaleRequest& request) {
  const std::int64_t most = *std::max_element(request.ranks.begin(), request.ranks.end());
  if (!request.global_batch) return most;
  return std::min(most, product(ceil_div(*request.global_batch, request.micro_batch), model_ranks(request)));
}

/// Reduce-scatter and all-gather have no tree.
Algorithm algorithm_used(const ScaleRequest& request, Algorithm algorithm) {
  return request.zero > 0 && algorithm == Algorithm::tree ? Algorithm::ring : algorithm;
}

/// Bytes of each bucket that a step reduces, on the largest number of ranks.
std::vector<double> buckets_of(const ScaleRequest& request) {
  const std::int64_t most = *std::max_element(request.ranks.begin(), request.ranks.end());
  return step_model(request, most, 1).buckets;
}

double largest_bucket(const ScaleRequest& request) {
  const std::vector<double> buckets = buckets_of(request);
  return *std::max_element(buckets.begin(), buckets.end());
}

/// The fewest ranks, up to `most`, for which `is_so` holds, among the ranks of one node and whole nodes. It
/// must hold for all larger numbers too.
template <class Predicate>
std::optional<std::int64_t> min_ranks(const Cluster& cluster, std::int64_t most, Predicate is_so) {
  const std::int64_t local = cluster.ranks_per_node;
  for (std::int64_t ranks = 1; ranks <= std::min(local, most); ++ranks) {
    if (is_so(ranks)) return ranks;
  }
  std::int64_t no = 1, yes = most / local + 1;  // nodes
  while (yes - no > 1) {
    const std::int64_t middle = no + (yes - no) / 2;
    (is_so(middle * local) ? yes : no) = middle;
  }
  if (yes * local > most) return std::nullopt;
  return yes * local;
}

/// In closed form and without jitter, so that the times grow with the ranks.
void find_limits(ScaleRequest request, ScaleVariant& variant) {
  request.jitter.variation = 0;
  request.steps = 1;
  const std::int64_t of_model = model_ranks(request), most = max_with_work(request) / of_model;
  const std::int64_t context = of_model / part_ranks(request);
  const Cluster group = mean_group(request), models = group_of_ranks(group, context);
  variant.exposed_from = min_ranks(models, most, [&](std::int64_t data_ranks) {
    const ScalePoint point = point_of(request, data_ranks * of_model, false);
    return point.times.exposed > ScaleVariant::kHidden * point.times.step;
  });
  const double bytes = largest_bucket(request);
  variant.latency_from = min_ranks(models, most, [&](std::int64_t data_ranks) {
    const CollectiveProblem problem =
        collective_of(request, reduction_of(request.zero), bytes, data_ranks * context);
    return 2 * collective_latency(group, problem) > collective_time(group, problem);
  });
  for (std::optional<std::int64_t>* const ranks : {&variant.exposed_from, &variant.latency_from}) {
    if (*ranks) **ranks *= of_model;
  }
}

ScaleVariant variant_of(const ScaleRequest& request, bool may_simulate) {
  ScaleVariant variant{.algorithm = request.algorithm,
                       .bucket = std::llround(largest_bucket(request) * request.compression),
                       .points = {},
                       .exposed_from = {},
                       .latency_from = {}};
  const std::int64_t most = max_with_work(request);
  for (std::int64_t ranks : request.ranks) {
    if (ranks <= most) variant.points.push_back(point_of(request, ranks, may_simulate));
  }
  find_limits(request, variant);
  return variant;
}

/// Larger buckets, if they differ, and the other algorithms, in closed form and without jitter.
std::vector<ScaleVariant> other_variants(const ScaleRequest& asked) {
  std::vector<ScaleVariant> others;
  ScaleRequest other = asked;
  other.jitter.variation = 0;
  other.steps = 1;
  other.bucket = product(8, asked.bucket);
  if (buckets_of(other) != buckets_of(asked)) others.push_back(variant_of(other, false));
  other.bucket = asked.bucket;
  for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}) {
    if (algorithm == asked.algorithm || algorithm_used(asked, algorithm) != algorithm) continue;
    other.algorithm = algorithm;
    others.push_back(variant_of(other, false));
  }
  return others;
}

}  // namespace

std::string ScaleMesh::context_text() const {
  return config.mesh.context > 1 ? fmt::format(" x {} context", config.mesh.context) : "";
}

std::vector<std::int64_t> doubling_ranks(const Cluster& cluster, std::int64_t most, std::int64_t model_ranks,
                                         std::int64_t stages) {
  const std::int64_t local = cluster.ranks_per_node;
  check(local % model_ranks == 0 || model_ranks % local == 0,
        "models of {} ranks lie across nodes of {}: expected a divisor or a multiple", model_ranks, local);
  check(model_ranks <= most, "a model of {}, but at most {}", counted(model_ranks, "rank"),
        counted(most, "rank"));
  const std::int64_t unit = std::max(local, model_ranks);  // one node, or one model
  const std::int64_t part = most <= unit ? model_ranks : unit;
  const std::int64_t nodes_of_stages = std::lcm(unit, stages * local);
  const std::int64_t last = stages == 1              ? most / part * part
                            : most < nodes_of_stages ? 0
                                                     : most / nodes_of_stages * nodes_of_stages;
  std::vector<std::int64_t> ranks;
  for (std::int64_t n = model_ranks; n < unit && n <= most && n != last; n *= 2) ranks.push_back(n);
  for (std::int64_t n = unit; n <= most && (last == 0 || n < last); n *= 2) ranks.push_back(n);
  if (last > 0) ranks.push_back(last);
  return ranks;
}

std::vector<double> bucket_bytes(const ScaleRequest& request) {
  const std::int64_t bytes = product(request.parameters, request.gradient_bytes);
  const std::int64_t rest = std::max<std::int64_t>(bytes - request.first_bucket, 0);
  const std::int64_t count = 1 + ceil_div(rest, request.bucket);
  check(count <= kMaxBuckets, "{} of gradients make {} buckets: expected at most {}, so larger ones",
        grouped(bytes), count, kMaxBuckets);
  std::vector<double> buckets = {static_cast<double>(std::min(request.first_bucket, bytes))};
  for (std::int64_t left = rest; left > 0; left -= request.bucket) {
    buckets.push_back(static_cast<double>(std::min(request.bucket, left)));
  }
  return buckets;
}

ScalePlan plan_scale(const ScaleRequest& request) {
  check_model(request);
  check_communication(request);
  check_disturbances(request);
  check_ranks(request);
  const std::int64_t first = *std::min_element(request.ranks.begin(), request.ranks.end());
  const StepModel model = step_model(request, first, 1);
  ScaleRequest asked = request;
  asked.algorithm = algorithm_used(request, request.algorithm);
  ScalePlan plan{.forward = model.forward,
                 .backward = model.backward,
                 .buckets = buckets_of(request).size(),
                 .most = max_with_work(request),
                 .asked = variant_of(asked, true),
                 .others = {},
                 .notes = {}};
  check(!plan.asked.points.empty(), "{} have no work for any of these numbers of ranks",
        grouped(request.global_batch.value_or(0), "sample"));
  plan.others = other_variants(asked);
  const auto idle = std::ssize(request.ranks) - std::ssize(plan.asked.points);
  if (idle > 0) {
    plan.notes.push_back(
        fmt::format("{} of ranks left out: a batch of {} has no more than {} micro-batches of {} to divide",
                    grouped(idle, "number"), grouped(*request.global_batch),
                    grouped(plan.most / model_ranks(request)), request.micro_batch));
  }
  std::vector<std::string> rounded;
  for (const ScalePoint& point : plan.asked.points) {
    if (point.global_batch == request.global_batch.value_or(point.global_batch)) continue;
    rounded.push_back(fmt::format("{} on {}", grouped(point.global_batch), grouped(point.ranks, "rank")));
  }
  if (!rounded.empty()) {
    plan.notes.push_back(fmt::format("the batch of {} is rounded up to whole micro-batches of all ranks: {}",
                                     grouped(*request.global_batch), fmt::join(rounded, ", ")));
  }
  for (const ScalePoint& point : plan.asked.points) {
    if (request.rank_mtbf_hours == 0) break;
    const double best = daly_interval(failures_of(request, point.ranks));
    if (best > request.checkpoint) continue;
    plan.notes.push_back(
        fmt::format("from {} on failures are so frequent that the best time between two checkpoints, "
                    "{:.6g} s, is not longer than a checkpoint takes, {:.6g} s",
                    grouped(point.ranks, "rank"), best, request.checkpoint));
    break;  // more ranks fail more often
  }
  if (request.jitter.variation > 0) {
    plan.notes.push_back("the other buckets and algorithms are simulated without jitter");
  }
  return plan;
}

}  // namespace ringtape::planner
