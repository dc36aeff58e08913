#include "planner/parallel.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "dist/pipeline_schedule.h"
#include "dist/traffic.h"
#include "nn/memory_estimate.h"
#include "planner/numbers.h"
#include "planner/training_step.h"

namespace ringtape::planner {
namespace {

constexpr std::int64_t kMostRanks = 100'000;

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= n; ++i) {
    if (n % i == 0) found.push_back(i);
  }
  return found;
}

/// Whether ranks are a part of a node or whole nodes, as collective_time() knows them.
bool fills_nodes(const Cluster& cluster, std::int64_t ranks) {
  return ranks <= cluster.ranks_per_node || ranks % cluster.ranks_per_node == 0;
}

/// Micro-batches that a stage has at a time, each through a chunk as a part of one.
double in_flight(const ParallelWay& way, int stage) {
  const int stages = way.mesh.pipeline, chunks = static_cast<int>(way.chunks);
  // More micro-batches than fill the pipeline change nothing.
  const int micro_batches = static_cast<int>(std::min<std::int64_t>(way.micro_batches, 4 * stages));
  const auto kind = chunks > 1 ? PipelineScheduleKind::interleaved : PipelineScheduleKind::one_f_one_b;
  const int most = most_in_flight(stage_schedule(kind, {stages, micro_batches, chunks}, stage));
  return std::max(1.0, static_cast<double>(most) / chunks);
}

/// A rank of one stage.
GptMemoryProblem part_of_way(const ParallelRequest& request, const ParallelWay& way, int stage) {
  return {.model = gpt_options(request.model),
          .sequences = way.micro_batch,
          .state_per_parameter = request.state_per_parameter,
          .recompute = way.recompute,
          .compute = request.compute,
          .part = {.tensor = way.mesh.tensor,
                   .tensor_rank = way.mesh.tensor - 1,
                   .sequence = way.sequence,
                   .stages = way.mesh.pipeline,
                   .stage = stage,
                   .chunks = static_cast<int>(way.chunks),
                   .in_flight = in_flight(way, stage)},
          .sharding = {.stage = way.zero, .world_size = way.mesh.data, .bucket_sizes = request.bucket_sizes}};
}

std::vector<MemoryRow> memory_of(const ParallelRequest& request, const GptMemoryProblem& part) {
  using enum MemoryCategory;
  const int stage = part.sharding.stage;
  const ArenaLayout layout =
      gpt_layout(arena_order(parameters_of(part.model, part.part), stage), part.sharding);
  const BytesByCategory between = estimate_arena(layout, stage, part.state_per_parameter, part.compute);
  const BytesByCategory peak = estimate_memory(part);
  const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  const std::string held = stage == 0 ? grouped(layout.elements) + " parameters"
                                      : fmt::format("{} parameters, a shard of {}", grouped(layout.elements),
                                                    grouped(layout.shard));
  const std::string in_flight =
      part.part.in_flight > 1 ? fmt::format(", {:.3g} micro-batches in flight", part.part.in_flight) : "";
  return {
      {"parameters", bytes(between[parameters]), held},
      {"gradients", bytes(between[gradients]), stage >= 2 ? "of the shard" : "of all"},
      {"optimizer state", bytes(between[optimizer_state]), stage >= 1 ? "of the shard" : "of all"},
      {"buckets", bytes(peak[gradients] - between[gradients]), stage >= 2 ? "2 of gradients" : "none"},
      {"gathered units", bytes(peak[parameters] - between[parameters]), stage == 3 ? "2 at a time" : "none"},
      {"activations", bytes(peak[activations]), count(part.sequences, "sample") + in_flight},
      {"their gradients", bytes(peak[activation_gradients]), count(part.sequences, "sample")},
      {"data", bytes(peak[data]), "tokens and targets"},
      {"workspace", request.workspace, "as given"},
  };
}

std::int64_t sum_of(const std::vector<MemoryRow>& rows) {
  std::int64_t sum = 0;
  for (const MemoryRow& row : rows) sum += row.bytes;
  return sum;
}

/// Seconds of these calls, one after the other.
double seconds_of(const Cluster& line, std::int64_t ranks, Algorithm algorithm,
                  const CollectiveCounts& counts) {
  double seconds = 0;
  const auto add = [&](Operation operation, Collective kind) {
    const CollectiveCount& count = counts[static_cast<std::size_t>(operation)];
    if (count.calls == 0) return;
    const auto calls = static_cast<double>(count.calls);
    const CollectiveProblem problem{.kind = kind,
                                    .algorithm = algorithm,
                                    .ranks = ranks,
                                    .bytes = static_cast<double>(count.bytes) / calls};
    seconds += calls * collective_time(line, problem);
  };
  add(Operation::all_reduce, Collective::all_reduce);
  add(Operation::reduce_scatter, Collective::reduce_scatter);
  add(Operation::all_gather, Collective::all_gather);
  return seconds;
}

double sent_by(const ParallelWay& way, const ParallelTraffic& traffic) {
  // Of a pipeline's line only two ranks add up, whatever its length.
  return bytes_sent(traffic.data, way.mesh.data) + bytes_sent(traffic.tensor, way.mesh.tensor) +
         bytes_sent(traffic.pipeline, 2);
}

/// The seconds of a step of `m` micro-batches: all but the last are alike, so two numbers of them tell the
/// rest.
StepTimes times_of(StepModel model, std::int64_t m, const Communicate& communicate) {
  const auto simulate = [&](std::int64_t accumulation) {
    model.accumulation = accumulation;
    return simulate_steps(model, 1, 1, Jitter({}), communicate);
  };
  StepTimes one = simulate(1);
  if (m == 1) return one;
  const StepTimes two = simulate(2);
  const auto more = static_cast<double>(m - 1);
  one.step += more * (two.step - one.step);
  one.computing += more * (two.computing - one.computing);
  return one;
}

/// FLOPs of a sample's forward through a stage.
struct StageCost {
  double block_count = 0, blocks = 0, head = 0;
  double all() const { return blocks + head; }
};

std::vector<StageCost> costs_of_stages(const ParallelRequest& request, const ParallelWay& way) {
  const TransformerOptions model = gpt_options(request.model);
  const std::vector<double> costs = costs_of_units(model);
  std::vector<StageCost> stages;
  for (const std::int64_t blocks : blocks_of_stages(model, way.mesh.pipeline, static_cast<int>(way.chunks))) {
    stages.push_back({static_cast<double>(blocks), static_cast<double>(blocks) * costs[1], 0});
  }
  stages.back().head = costs.back();
  return stages;
}

int slowest_stage(const ParallelRequest& request, const ParallelWay& way) {
  const std::vector<StageCost> costs = costs_of_stages(request, way);
  const auto slowest = std::max_element(
      costs.begin(), costs.end(), [](const StageCost& a, const StageCost& b) { return a.all() < b.all(); });
  return static_cast<int>(slowest - costs.begin());
}

void add_time(const ParallelRequest& request, ParallelPlan& plan) {
  const ParallelWay& way = plan.way;
  const MeshSizes& mesh = way.mesh;
  const int slowest = slowest_stage(request, way);
  const GptMemoryProblem part = part_of_way(request, way, slowest);
  const ParallelTraffic traffic =
      update_traffic({.gpt = part, .micro_batches = way.micro_batches, .compress = request.compress});
  const auto m = static_cast<double>(way.micro_batches);
  const double rate = request.flops * mesh.tensor / static_cast<double>(way.micro_batch);
  const StageCost cost = costs_of_stages(request, way)[static_cast<std::size_t>(slowest)];
  const double computing = cost.all() / rate;
  // What is recomputed, of the blocks alone.
  const auto segments =
      way.recompute == 0 ? 1.0 : std::ceil(cost.block_count / static_cast<double>(way.recompute));
  const double again = cost.blocks / rate * (segments - 1) / segments;

  const double in_layers =
      seconds_of(line_of_ranks(request.cluster, 1), mesh.tensor, request.algorithm, traffic.tensor) / m;
  const std::int64_t between_stages = std::int64_t{mesh.tensor} * mesh.data;
  const Cluster stage_line = line_of_ranks(request.cluster, between_stages);
  const Link& link = stage_line.ranks_per_node > 1 ? stage_line.intra_node : stage_line.inter_node;
  const CollectiveCount& messages = traffic.pipeline[static_cast<std::size_t>(Operation::exchange)];
  double in_pipeline = 0;
  if (messages.calls > 0) {
    const auto calls = static_cast<double>(messages.calls);
    in_pipeline = calls / m * link.message(static_cast<double>(messages.bytes) / calls);
  }
  const double exposed = (in_layers + in_pipeline) / 2;  // in forward, and as much in backward

  const ArenaLayout layout =
      gpt_layout(arena_order(parameters_of(part.model, part.part), part.sharding.stage), part.sharding);
  StepModel model;
  model.forward = computing + exposed;
  model.backward = 2 * computing + again + exposed;
  model.zero = way.zero;
  const double gradient_bytes =
      way.zero == 0 ? static_cast<double>(size_of(request.compress.value_or(DType::f32))) : 4;
  for (const GradientBucket& bucket : layout.buckets) {
    model.buckets.push_back(gradient_bytes * static_cast<double>(bucket.elements));
  }
  model.gathered_per_gradient = static_cast<double>(size_of(request.compute)) / gradient_bytes;
  const Cluster data_line = line_of_ranks(request.cluster, mesh.tensor);
  const Communicate communicate = [&](Collective kind, double bytes, std::vector<double>& times) {
    times[0] += collective_time(
        data_line, {.kind = kind, .algorithm = request.algorithm, .ranks = mesh.data, .bytes = bytes});
  };
  const StepTimes times = times_of(model, way.micro_batches, communicate);
  const double micro_batch = model.forward + model.backward;
  const double waiting = (mesh.pipeline - 1) / static_cast<double>(way.chunks) * micro_batch;
  plan.computing = m * (3 * computing + again);
  plan.step = times.step + waiting + seconds_of(stage_line, 2, request.algorithm, traffic.pipeline);
  plan.bubble = (mesh.pipeline - 1) / (static_cast<double>(way.chunks) * m + mesh.pipeline - 1);
  const double of_model = 3 * forward_flops(part.model, request.global_batch, request.model.sequence);
  plan.utilisation = of_model / (plan.step * request.flops * static_cast<double>(request.ranks));
}

/// The plan without its time.
ParallelPlan plan_of(const ParallelRequest& request, const ParallelWay& way) {
  ParallelPlan plan;
  plan.way = way;
  for (const int stage : {0, way.mesh.pipeline - 1}) {
    const GptMemoryProblem part = part_of_way(request, way, stage);
    std::vector<MemoryRow> rows = memory_of(request, part);
    const std::int64_t bytes = sum_of(rows);
    if (bytes <= plan.bytes) continue;
    plan.bytes = bytes;
    plan.memory = std::move(rows);
    plan.traffic = update_traffic({.gpt = part,
                                   .micro_batches = way.micro_batches,
                                   .compress = way.zero == 0 ? request.compress : std::nullopt});
  }
  plan.bytes_sent = sent_by(way, plan.traffic);
  return plan;
}

/// Whether each stage has a block, and each of its chunks a unit.
bool has_blocks(const ParallelRequest& request, std::int64_t stages, std::int64_t chunks) {
  if (request.model.layers + 2 < stages * chunks) return false;
  const std::vector<std::int64_t> blocks =
      blocks_of_stages(gpt_options(request.model), static_cast<int>(stages), static_cast<int>(chunks));
  return *std::min_element(blocks.begin(), blocks.end()) >= 1;
}

/// The ways of a mesh and ZeRO stage.
std::vector<ParallelWay> ways_of(const ParallelRequest& request, const MeshSizes& mesh, int zero) {
  std::vector<ParallelWay> ways;
  const std::int64_t own = request.global_batch / mesh.data;  // samples of a rank
  for (const std::int64_t chunks : {1, 2, 4}) {
    if (chunks > 1 && (mesh.pipeline == 1 || !has_blocks(request, mesh.pipeline, chunks))) continue;
    for (const bool sequence : {false, true}) {
      if (sequence && (mesh.tensor == 1 || request.model.sequence % mesh.tensor != 0)) continue;
      for (const std::int64_t recompute : {0, 1}) {
        const std::int64_t first = request.micro_batch.value_or(1), end = request.micro_batch.value_or(own);
        for (std::int64_t micro_batch = first; micro_batch <= end; micro_batch *= 2) {
          if (own % micro_batch != 0) continue;
          ways.push_back({mesh, zero, sequence, recompute, chunks, micro_batch, own / micro_batch});
        }
      }
    }
  }
  return ways;
}

/// Why a mesh is not possible; empty for one that is.
std::string reason_against(const ParallelRequest& request, const MeshSizes& mesh) {
  const Transformer& model = request.model;
  const std::int64_t node = request.cluster.ranks_per_node;
  if (model.heads % mesh.tensor != 0)
    return fmt::format("{} tensor ranks do not divide {} heads", mesh.tensor, model.heads);
  if (model.vocabulary < mesh.tensor)
    return fmt::format("{} tensor ranks are more than a vocabulary of {}", mesh.tensor, model.vocabulary);
  if (!has_blocks(request, mesh.pipeline, 1))
    return fmt::format("{} layers do not give each of {} stages a block", model.layers, mesh.pipeline);
  if (request.global_batch % mesh.data != 0)
    return fmt::format("{} data ranks do not divide a batch of {}", mesh.data, request.global_batch);
  if (request.micro_batch && request.global_batch / mesh.data % *request.micro_batch != 0)
    return fmt::format("micro-batches of {} do not divide the {} samples of a rank", *request.micro_batch,
                       request.global_batch / mesh.data);
  if ((node % mesh.tensor != 0 && mesh.tensor % node != 0) ||
      !fills_nodes(line_of_ranks(request.cluster, mesh.tensor), mesh.data))
    return fmt::format("lines of ranks do not fill nodes of {}", node);
  return "";
}

void check_request(const ParallelRequest& request) {
  gpt_options(request.model);  // throws
  check(request.ranks >= 1 && request.ranks <= kMostRanks,
        "the number of ranks must be from 1 to {}, found {}", kMostRanks, request.ranks);
  check_size("the memory of a rank", request.memory);
  check_size("the global batch", request.global_batch);
  check(request.flops > 0 && std::isfinite(request.flops), "the FLOP/s must be above 0, found {}",
        request.flops);
  check_cluster(request.cluster);
  check_ranks(request.cluster, request.ranks);
  for (const auto& [name, size] : {std::pair("tensor", request.tensor), {"pipeline", request.pipeline}}) {
    check(!size || (*size >= 1 && request.ranks % *size == 0),
          "--{}-parallel {}: expected a divisor of the {}", name, size.value_or(0),
          count(request.ranks, "rank"));
  }
  const std::int64_t of_model = request.tensor.value_or(1) * request.pipeline.value_or(1);
  check(request.ranks % of_model == 0, "{} tensor ranks and {} stages do not divide {}",
        request.tensor.value_or(1), request.pipeline.value_or(1), count(request.ranks, "rank"));
  check(!request.zero || (*request.zero >= 0 && *request.zero <= 3), "ZeRO has stages 0 to 3, found {}",
        request.zero.value_or(0));
  check(!request.compress || request.zero.value_or(0) == 0, "--compress cannot be used with --zero {}",
        request.zero.value_or(0));
  check(!request.micro_batch || *request.micro_batch >= 1, "the micro-batch must be at least 1, found {}",
        request.micro_batch.value_or(0));
  // Throws where a number of bytes below would be out of range.
  product(
      product(request.global_batch, request.model.sequence),
      product(34, std::max(request.model.vocabulary, product(request.model.layers, request.model.hidden))));
}

/// The fastest way of a mesh and stage that fits goes to the plans, or the reason why there is none.
void add_best(const ParallelRequest& request, const MeshSizes& mesh, int zero, ParallelPlans& all) {
  std::optional<ParallelPlan> best;
  std::int64_t least = 0;
  for (const ParallelWay& way : ways_of(request, mesh, zero)) {
    ++all.ways;
    ParallelPlan plan = plan_of(request, way);
    if (least == 0 || plan.bytes < least) least = plan.bytes;
    if (plan.bytes > request.memory) continue;
    add_time(request, plan);
    if (!best || plan.step < best->step) best = std::move(plan);
  }
  if (best) {
    all.plans.push_back(std::move(*best));
  } else if (least > 0) {
    all.left_out.push_back({mesh, zero, least,
                            fmt::format("{} at least, {} more than there are", bytes_text(least),
                                        bytes_text(least - request.memory))});
  }
}

}  // namespace

Cluster line_of_ranks(const Cluster& cluster, std::int64_t stride) {
  Cluster line = cluster;
  line.ranks_per_node = std::max<std::int64_t>(1, cluster.ranks_per_node / stride);
  // Beside this line there are others in the node.
  line.inter_node.bandwidth /= static_cast<double>(std::min(stride, cluster.ranks_per_node));
  return line;
}

ParallelPlans plan_parallel(const ParallelRequest& request) {
  check_request(request);
  ParallelPlans all;
  for (const std::int64_t tensor : divisors(request.ranks)) {
    if (request.tensor && tensor != *request.tensor) continue;
    for (const std::int64_t pipeline : divisors(request.ranks / tensor)) {
      if (request.pipeline && pipeline != *request.pipeline) continue;
      const MeshSizes mesh{.tensor = static_cast<int>(tensor),
                           .data = static_cast<int>(request.ranks / tensor / pipeline),
                           .pipeline = static_cast<int>(pipeline)};
      if (std::string reason = reason_against(request, mesh); !reason.empty()) {
        all.left_out.push_back({mesh, request.zero.value_or(0), 0, std::move(reason)});
        continue;
      }
      for (int zero = 0; zero <= (mesh.data == 1 ? 0 : 3); ++zero) {
        if (request.zero && zero != *request.zero && mesh.data > 1) continue;
        if (request.compress && zero > 0) continue;
        // The copies of tied embeddings: see docs/parallel.md.
        if (pipeline > 1 && (zero > 1 || (zero == 1 && mesh.data > 2))) {
          all.left_out.push_back(
              {mesh, zero, 0,
               zero > 1 ? "stages with ZeRO 0 or 1 only" : "stages with ZeRO 1 on at most 2 data ranks"});
          continue;
        }
        add_best(request, mesh, zero, all);
      }
    }
  }
  if (all.plans.empty()) {
    const LeftOut* nearest = nullptr;
    for (const LeftOut& each : all.left_out) {
      if (each.least_bytes > 0 && (nearest == nullptr || each.least_bytes < nearest->least_bytes))
        nearest = &each;
    }
    check(nearest != nullptr, "no mesh of {} can train this model: {}", count(request.ranks, "rank"),
          all.left_out.front().reason);
    fail(
        "no mesh of {} fits into {} a rank: the least, {} tensor x {} pipeline x {} data with ZeRO {}, takes "
        "{}",
        count(request.ranks, "rank"), bytes_text(request.memory), nearest->mesh.tensor,
        nearest->mesh.pipeline, nearest->mesh.data, nearest->zero, bytes_text(nearest->least_bytes));
  }
  std::stable_sort(all.plans.begin(), all.plans.end(), [](const ParallelPlan& a, const ParallelPlan& b) {
    return a.step != b.step ? a.step < b.step : a.bytes < b.bytes;
  });
  std::stable_sort(all.left_out.begin(), all.left_out.end(), [](const LeftOut& a, const LeftOut& b) {
    return a.least_bytes > 0 && b.least_bytes == 0;
  });
  return all;
}

}  // namespace ringtape::planner
