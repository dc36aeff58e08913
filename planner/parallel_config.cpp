#include "planner/parallel_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/divisors.h"
#include "core/error.h"
#include "dist/pipeline_schedule.h"
#include "dist/traffic.h"
#include "nn/memory_estimate.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

/// Whether ranks are part of a node or fill whole nodes, as collective_time() requires.
bool fills_nodes(const Cluster& cluster, std::int64_t ranks) {
  return ranks <= cluster.ranks_per_node || ranks % cluster.ranks_per_node == 0;
}

/// Micro-batches that a stage has in flight.
double in_flight(const ParallelConfig& config, int stage) {
  const int stages = config.mesh.pipeline, chunks = static_cast<int>(config.chunks);
  // Of very many micro-batches only the remainder by the stages matters.
  constexpr int kMany = 1 << 24;
  const int micro_batches = static_cast<int>(config.micro_batches < kMany
                                                 ? config.micro_batches
                                                 : kMany / stages * stages + config.micro_batches % stages);
  const auto kind = chunks > 1 ? PipelineScheduleKind::interleaved : PipelineScheduleKind::one_f_one_b;
  return micro_batches_in_flight(kind, {stages, micro_batches, chunks}, stage);
}

/// The memory problem of a rank of this stage.
GptMemoryProblem memory_problem(const ParallelRequest& request, const ParallelConfig& config, int stage) {
  return {.model = request.model,
          .sequences = config.micro_batch,
          .state_per_parameter = request.state_per_parameter,
          .recompute = config.recompute,
          .compute = request.compute,
          .part = {.tensor = config.mesh.tensor,
                   .tensor_rank = config.mesh.tensor - 1,
                   .sequence = config.sequence_parallel,
                   .context = config.mesh.context,
                   .stages = config.mesh.pipeline,
                   .stage = stage,
                   .chunks = static_cast<int>(config.chunks),
                   .in_flight = in_flight(config, stage),
                   .micro_batches = config.micro_batches},
          .sharding = {.zero_stage = config.zero,
                       .world_size = config.mesh.data_and_context(),
                       .bucket_sizes = request.bucket_sizes,
                       .reshard_after_forward = config.reshard}};
}

ArenaLayout layout_of(const GptMemoryProblem& part) {
  return gpt_layout(arena_order(parameters_of(part.model, part.part), part.sharding.zero_stage),
                    part.sharding);
}

std::vector<MemoryRow> memory_rows(const ParallelRequest& request, const GptMemoryProblem& part) {
  using enum MemoryCategory;
  const int stage = part.sharding.zero_stage;
  const ArenaLayout layout = layout_of(part);
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
      {"buckets", bytes(peak[gradients] - between[gradients]),
       stage >= 2 ? "of gradients, at the peak" : "none"},
      {"gathered units", bytes(peak[parameters] - between[parameters]),
       stage < 3                             ? "none"
       : part.sharding.reshard_after_forward ? "at the peak"
                                             : "all"},
      {"activations", bytes(peak[activations]), grouped(part.sequences, "sample") + in_flight},
      {"their gradients", bytes(peak[activation_gradients]), grouped(part.sequences, "sample")},
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
double seconds_of(const Cluster& group, std::int64_t ranks, Algorithm algorithm,
                  const CollectiveCounts& counts) {
  double seconds = 0;
  const auto add = [&](CommOperation operation, Collective kind) {
    const CollectiveCount& count = counts[static_cast<std::size_t>(operation)];
    if (count.calls == 0) return;
    const auto calls = static_cast<double>(count.calls);
    const CollectiveProblem problem{.kind = kind,
                                    .algorithm = algorithm,
                                    .ranks = ranks,
                                    .bytes = static_cast<double>(count.bytes) / calls};
    seconds += calls * collective_time(group, problem);
  };
  add(CommOperation::all_reduce, Collective::all_reduce);
  add(CommOperation::reduce_scatter, Collective::reduce_scatter);
  add(CommOperation::all_gather, Collective::all_gather);
  return seconds;
}

double sent_by(const ParallelConfig& config, const ParallelTraffic& traffic) {
  // Of the pipeline's group only two ranks reduce, whatever its size.
  return bytes_sent(traffic.data, config.mesh.data_and_context()) +
         bytes_sent(traffic.tensor, config.mesh.tensor) + bytes_sent(traffic.context, config.mesh.context) +
         bytes_sent(traffic.pipeline, 2);
}

/// Seconds of one message to the next of `ranks` ranks.
double message_seconds(const Cluster& group, std::int64_t ranks, const CollectiveCount& messages) {
  if (messages.calls == 0) return 0;
  const Link& link = group.ranks_per_node >= ranks ? group.intra_node : group.inter_node;
  return link.message(static_cast<double>(messages.bytes) / static_cast<double>(messages.calls));
}

/// FLOPs of a sample's forward through a stage.
struct StageCost {
  double block_count = 0, blocks = 0, head = 0;
  double all() const { return blocks + head; }
};

std::vector<StageCost> costs_of_stages(const ParallelRequest& request, const ParallelConfig& config) {
  const TransformerOptions& model = request.model;
  const std::vector<double> costs = costs_of_units(model);
  std::vector<StageCost> stages;
  for (const std::int64_t blocks :
       blocks_of_stages(model, config.mesh.pipeline, static_cast<int>(config.chunks))) {
    stages.push_back({static_cast<double>(blocks), static_cast<double>(blocks) * costs[1], 0});
  }
  stages.back().head = costs.back();
  return stages;
}

int slowest_stage(const ParallelRequest& request, const ParallelConfig& config) {
  const std::vector<StageCost> costs = costs_of_stages(request, config);
  const auto slowest = std::max_element(
      costs.begin(), costs.end(), [](const StageCost& a, const StageCost& b) { return a.all() < b.all(); });
  return static_cast<int>(slowest - costs.begin());
}

/// The first and the last stage, and of the stages between with equal numbers of blocks the first, which has
/// the most micro-batches in flight.
std::vector<int> stages_that_may_be_largest(const ParallelRequest& request, const ParallelConfig& config) {
  const std::vector<std::int64_t> blocks =
      blocks_of_stages(request.model, config.mesh.pipeline, static_cast<int>(config.chunks));
  std::vector<int> stages;
  for (int stage = 0; stage < config.mesh.pipeline; ++stage) {
    const auto own = blocks.begin() + stage;
    const bool is_at_end = stage == 0 || stage + 1 == config.mesh.pipeline;
    if (is_at_end || std::find(blocks.begin() + 1, own, *own) == own) stages.push_back(stage);
  }
  return stages;
}

/// Seconds in which ranks of the ring wait for messages, in a micro-batch's forward and backward through
/// `blocks` blocks, of which `again` run their forward twice.
double ring_seconds(const ParallelRequest& request, const ParallelConfig& config,
                    const CollectiveCount& messages, double blocks, double again) {
  const double ranks = config.mesh.context;
  const double message =
      message_seconds(group_of_ranks(request.cluster, config.mesh.tensor), config.mesh.context, messages);
  // The attention of one step of the ring in forward: the rank's part, for one shard, of a sample's 2 T (T +
  // 1) C FLOPs (forward_flops()).
  const auto tokens = static_cast<double>(request.model.context);
  const double attention = static_cast<double>(config.micro_batch) * 2 * tokens * (tokens + 1) *
                           static_cast<double>(request.model.width) /
                           (request.flops * config.mesh.tensor * ranks * ranks);
  const auto exposed = [&](double computing) { return (ranks - 1) * std::max(0.0, message - computing); };
  return (blocks + again) * exposed(attention) + blocks * (exposed(2 * attention) + ranks * message);
}

}  // namespace

double bubble_in_micro_batches(const ParallelConfig& config) {
  const double p = config.mesh.pipeline, v = static_cast<double>(config.chunks);
  return (p - 1) / v + std::max(0.0, p - static_cast<double>(config.micro_batches)) * (1 - 1 / v);
}

ParallelPlan plan_of_stage(const ParallelRequest& request, const ParallelConfig& config, int stage) {
  const GptMemoryProblem part = memory_problem(request, config, stage);
  ParallelPlan plan;
  plan.config = config;
  plan.memory = memory_rows(request, part);
  plan.bytes = sum_of(plan.memory);
  plan.traffic = update_traffic({.gpt = part,
                                 .micro_batches = config.micro_batches,
                                 .every_micro_batch = config.every_micro_batch,
                                 .compress = config.zero == 0 ? request.compress : std::nullopt});
  plan.bytes_sent = sent_by(config, plan.traffic);
  return plan;
}

ParallelPlan plan_of(const ParallelRequest& request, const ParallelConfig& config) {
  ParallelPlan largest;
  for (const int stage : stages_that_may_be_largest(request, config)) {
    ParallelPlan plan = plan_of_stage(request, config, stage);
    if (plan.bytes > largest.bytes) largest = std::move(plan);
  }
  return largest;
}

StepModel step_of(const ParallelRequest& request, const ParallelConfig& config) {
  const MeshSizes& mesh = config.mesh;
  const int slowest = slowest_stage(request, config);
  const GptMemoryProblem part = memory_problem(request, config, slowest);
  const ParallelTraffic traffic =
      update_traffic({.gpt = part, .micro_batches = config.micro_batches, .compress = request.compress});
  const auto m = static_cast<double>(config.micro_batches);
  const double rate = request.flops * mesh.tensor * mesh.context / static_cast<double>(config.micro_batch);
  const StageCost cost = costs_of_stages(request, config)[static_cast<std::size_t>(slowest)];
  const auto recomputed = static_cast<double>(recomputed_blocks(part));
  const double again = recomputed * cost.blocks / cost.block_count / rate;  // seconds

  const Cluster tensor_group = group_of_ranks(request.cluster, 1);
  const Cluster stage_line =
      group_of_ranks(request.cluster, std::int64_t{mesh.tensor} * mesh.data_and_context());
  const CollectiveCount& messages = traffic.pipeline[static_cast<std::size_t>(CommOperation::exchange)];
  const double in_layers = seconds_of(tensor_group, mesh.tensor, request.algorithm, traffic.tensor);
  const double in_pipeline =
      static_cast<double>(messages.calls) * message_seconds(stage_line, mesh.pipeline, messages);
  const CollectiveCount& shards = traffic.context[static_cast<std::size_t>(CommOperation::exchange)];
  const double in_ring = ring_seconds(request, config, shards, cost.block_count, recomputed);

  StepModel model;
  model.forward = cost.all() / rate;
  model.backward = 2 * model.forward + again;
  model.exposed = ((in_layers + in_pipeline) / m + in_ring) / 2;  // half in forward, half in backward
  model.bubble = bubble_in_micro_batches(config) * (model.forward + model.backward + 2 * model.exposed);
  // The first and the last stage sum the gradients of tied embeddings, and the others wait for the loss.
  Cluster first_and_last = stage_line;
  if (stage_line.ranks_per_node < mesh.pipeline) first_and_last.ranks_per_node = 1;
  const ParallelTraffic of_first = update_traffic(
      {.gpt = memory_problem(request, config, 0), .micro_batches = config.micro_batches, .compress = {}});
  model.sums = seconds_of(first_and_last, 2, request.algorithm, of_first.pipeline);
  model.accumulation = config.micro_batches;
  model.zero = config.zero;
  model.reshard = config.reshard;
  model.every_micro_batch = config.every_micro_batch;
  const double gradient_bytes =
      config.zero == 0 ? static_cast<double>(size_of(request.compress.value_or(DType::f32))) : 4;
  for (const GradientBucket& bucket : layout_of(part).buckets) {
    model.buckets.push_back(gradient_bytes * static_cast<double>(bucket.elements));
  }
  model.gathered_per_gradient = static_cast<double>(size_of(request.compute)) / gradient_bytes;
  return model;
}

bool has_blocks(const ParallelRequest& request, std::int64_t stages, std::int64_t chunks) {
  if (request.model.layers + 2 < stages * chunks) return false;
  const std::vector<std::int64_t> blocks =
      blocks_of_stages(request.model, static_cast<int>(stages), static_cast<int>(chunks));
  return *std::min_element(blocks.begin(), blocks.end()) >= 1;
}

std::vector<std::int64_t> numbers_of_chunks(const ParallelRequest& request, std::int64_t stages) {
  if (stages == 1) return {1};
  std::vector<std::int64_t> chunks = {1, 2, 4};
  if (request.chunks) chunks = {*request.chunks};
  std::erase_if(chunks, [&](std::int64_t each) { return !has_blocks(request, stages, each); });
  return chunks;
}

bool divides_tokens(const ParallelRequest& request, const MeshSizes& mesh) {
  return request.model.context / mesh.context % mesh.tensor == 0;
}

void check_flags_have_effect(const std::optional<std::int64_t>& tensor, bool sequence,
                             const std::optional<std::int64_t>& stages, std::int64_t chunks) {
  check(!sequence || tensor != 1,
        "--sequence-parallel has no effect: expected --tensor-parallel above 1 with it, found 1");
  check(chunks == 1 || stages != 1,
        "--pipeline-chunks {} has no effect: expected --pipeline-parallel above 1 with it, found 1", chunks);
}

std::string reason_against(const ParallelRequest& request, const MeshSizes& mesh) {
  const TransformerOptions& model = request.model;
  const std::int64_t node = request.cluster.ranks_per_node;
  if (model.heads % mesh.tensor != 0)
    return fmt::format(
        "{} tensor ranks do not divide {}, the nearest that divides both them and the ranks is {}",
        mesh.tensor, counted(model.heads, "head"),
        nearest_divisor(std::gcd(model.heads, request.ranks), mesh.tensor));
  if (model.kv_heads_or_default() % mesh.tensor != 0)
    return fmt::format(
        "{} tensor ranks do not divide {} of keys and values, the nearest that divides both them and the "
        "ranks is {}",
        mesh.tensor, counted(model.kv_heads_or_default(), "head"),
        nearest_divisor(std::gcd(model.kv_heads_or_default(), request.ranks), mesh.tensor));
  if (model.vocabulary < mesh.tensor)
    return fmt::format("{} tensor ranks are more than a vocabulary of {}", mesh.tensor, model.vocabulary);
  if (mesh.context > 1 && model.context % (2 * mesh.context) != 0)
    return fmt::format("sequences of {} have no {} equal chunks, the nearest length that has is {}",
                       counted(model.context, "token"), 2 * mesh.context,
                       nearest_multiple(model.context, 2 * mesh.context));
  if (mesh.tensor > 1 && request.sequence_parallel.value_or(false) && !divides_tokens(request, mesh))
    return fmt::format("{} tensor ranks do not divide {}", mesh.tensor,
                       counted(model.context / mesh.context, "token"));
  if (mesh.pipeline > 1 && numbers_of_chunks(request, mesh.pipeline).empty()) {
    if (request.chunks.value_or(1) == 1)
      return fmt::format("a model of {} has no block for each of {} stages", counted(model.layers, "layer"),
                         mesh.pipeline);
    return fmt::format("a model of {} cannot be divided into {} of {}", counted(model.layers, "layer"),
                       counted(mesh.pipeline, "stage"), counted(*request.chunks, "chunk"));
  }
  if (request.global_batch % mesh.data != 0)
    return fmt::format("{} data ranks do not divide a batch of {}", mesh.data, request.global_batch);
  if (request.micro_batch && request.global_batch / mesh.data % *request.micro_batch != 0)
    return fmt::format("micro-batches of {} do not divide the {} of a rank, the nearest that do are of {}",
                       *request.micro_batch, counted(request.global_batch / mesh.data, "sample"),
                       nearest_divisor(request.global_batch / mesh.data, *request.micro_batch));
  const std::int64_t of_stage = std::int64_t{mesh.tensor} * mesh.data_and_context();
  const auto fits = [node](std::int64_t ranks) { return node % ranks == 0 || ranks % node == 0; };
  if (mesh.context > 1 && !fits(std::int64_t{mesh.tensor} * mesh.context))
    return fmt::format(
        "{} tensor x {} context ranks lie across nodes of {}: expected a divisor or a multiple", mesh.tensor,
        mesh.context, node);
  if (!fits(mesh.tensor) || (mesh.pipeline > 1 && !fits(of_stage)) ||
      !fills_nodes(group_of_ranks(request.cluster, mesh.tensor), mesh.data_and_context()))
    return fmt::format("groups of ranks do not fill nodes of {}", node);
  return "";
}

Cluster group_of_ranks(const Cluster& cluster, std::int64_t stride) {
  Cluster group = cluster;
  group.ranks_per_node = std::max<std::int64_t>(1, cluster.ranks_per_node / stride);
  // Other groups in the node use the adapters too.
  group.inter_node.bandwidth /= static_cast<double>(std::min(stride, cluster.ranks_per_node));
  return group;
}

}  // namespace ringtape::planner
