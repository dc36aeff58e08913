#include "planner/parallel.h"

#include <algorithm>
#include <cmath>

#include "core/divisors.h"
#include "core/error.h"
#include "planner/numbers.h"
#include "planner/transformer.h"

namespace ringtape::planner {
namespace {

constexpr std::int64_t kMaxRanks = 100'000;

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= n / i; ++i) {
    if (n % i != 0) continue;
    found.push_back(i);
    if (i != n / i) found.push_back(n / i);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// All pairs of numbers whose product divides n.
std::vector<std::pair<std::int64_t, std::int64_t>> pairs_of_divisors(std::int64_t n) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const std::int64_t first : divisors(n)) {
    for (const std::int64_t second : divisors(n / first)) pairs.emplace_back(first, second);
  }
  return pairs;
}

/// The seconds of a step. All micro-batches but the last take the same time, so the times of one and two
/// micro-batches give the time of any number.
StepTimes times_of(StepModel model, const Communicate& communicate) {
  const std::int64_t m = model.accumulation;
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

void add_time(const ParallelRequest& request, ParallelPlan& plan) {
  const ParallelConfig& config = plan.config;
  const Cluster data_group = group_of_ranks(request.cluster, config.mesh.tensor);
  const Communicate communicate = [&](Collective kind, double bytes, std::vector<double>& times) {
    times[0] += collective_time(data_group, {.kind = kind,
                                             .algorithm = request.algorithm,
                                             .ranks = config.mesh.data_and_context(),
                                             .bytes = bytes});
  };
  const StepTimes times = times_of(step_of(request, config), communicate);
  plan.step = times.step;
  plan.computing = times.computing;
  plan.bubble = bubble_in_micro_batches(config) /
                (static_cast<double>(config.micro_batches) + bubble_in_micro_batches(config));
  const double of_model = 3 * forward_flops(request.model, request.global_batch, request.model.context);
  plan.utilisation = of_model / (plan.step * request.flops * static_cast<double>(request.ranks));
}

/// The fixed value alone, or else all values to be searched.
template <class T>
std::vector<T> values_of(const std::optional<T>& fixed, std::vector<T> searched) {
  return fixed ? std::vector<T>{*fixed} : searched;
}

std::vector<bool> sequence_of(const ParallelRequest& request, const MeshSizes& mesh) {
  if (mesh.tensor == 1 || !divides_tokens(request, mesh)) return {false};
  return values_of(request.sequence_parallel, {false, true});
}

/// The configurations of a mesh and a ZeRO stage.
std::vector<ParallelConfig> configs_of(const ParallelRequest& request, const MeshSizes& mesh, int zero) {
  std::vector<ParallelConfig> configs;
  const std::int64_t own = request.global_batch / mesh.data;  // samples of a rank
  for (const bool reshard : zero == 3 ? values_of(request.reshard, {true, false}) : std::vector{true}) {
    for (const std::int64_t chunks : numbers_of_chunks(request, mesh.pipeline)) {
      for (const bool sequence : sequence_of(request, mesh)) {
        for (const std::int64_t recompute : values_of(request.recompute, {0, 1})) {
          for (const std::int64_t micro_batch : values_of(request.micro_batch, divisors(own))) {
            configs.push_back(
                {mesh, zero, reshard, sequence, recompute, chunks, micro_batch, own / micro_batch});
          }
        }
      }
    }
  }
  return configs;
}

void check_request(const ParallelRequest& request) {
  check_sizes(request.model);
  check(request.ranks >= 1 && request.ranks <= kMaxRanks,
        "the number of ranks must be from 1 to {}, found {}", kMaxRanks, request.ranks);
  check_size("the memory of a rank", request.memory);
  check_size("the global batch", request.global_batch);
  check(request.flops > 0 && std::isfinite(request.flops), "the FLOP/s must be above 0, found {}",
        request.flops);
  check_cluster(request.cluster);
  check_ranks(request.cluster, request.ranks);
  for (const auto& [name, size] :
       {std::pair("tensor", request.tensor), {"context", request.context}, {"pipeline", request.pipeline}}) {
    check(!size || (*size >= 1 && request.ranks % *size == 0),
          "--{}-parallel {}: expected a divisor of the {}, the nearest is {}", name, size.value_or(0),
          grouped(request.ranks, "rank"), nearest_divisor(request.ranks, size.value_or(1)));
  }
  const std::int64_t tensor = request.tensor.value_or(1), context = request.context.value_or(1),
                     stages = request.pipeline.value_or(1);
  check(request.ranks % (tensor * context * stages) == 0, "{}{} and {} do not divide {}",
        counted(tensor, "tensor rank"), context > 1 ? fmt::format(", {} context ranks", context) : "",
        counted(stages, "stage"), grouped(request.ranks, "rank"));
  check(!request.zero || (*request.zero >= 0 && *request.zero <= 3), "ZeRO has stages 0 to 3, found {}",
        request.zero.value_or(0));
  check_flags_have_effect(request.tensor, request.sequence_parallel.value_or(false), request.pipeline,
                          request.chunks.value_or(1));
  check(request.reshard.value_or(true) || request.zero.value_or(3) == 3,
        "--no-reshard has no effect: expected --zero 3 with it, found --zero {}", request.zero.value_or(3));
  check(!request.compress || request.zero.value_or(0) == 0,
        "--compress cannot be used with --zero {}: expected one of them", request.zero.value_or(0));
  check(!request.micro_batch || *request.micro_batch >= 1, "the micro-batch must be at least 1, found {}",
        request.micro_batch.value_or(0));
  check(!request.chunks || *request.chunks >= 1, "a stage has at least 1 chunk, found {}",
        request.chunks.value_or(0));
  check(request.recompute.value_or(0) >= 0 && request.recompute.value_or(0) <= request.model.layers,
        "segments of {} layers are recomputed: expected at most the {} that there are",
        request.recompute.value_or(0), request.model.layers);
  // Throws where a number of bytes below would be out of range.
  const std::int64_t width = std::max(request.model.width, request.model.hidden_or_default());
  product(product(request.global_batch, request.model.context),
          product(34, std::max(request.model.vocabulary, product(request.model.layers, width))));
}

/// Adds the fastest configuration of a mesh and ZeRO stage that fits to the plans, or else the reason why
/// there is none.
void add_best(const ParallelRequest& request, const MeshSizes& mesh, int zero, ParallelPlans& all) {
  std::optional<ParallelPlan> best;
  std::int64_t least = 0;
  for (const ParallelConfig& config : configs_of(request, mesh, zero)) {
    ++all.configs;
    ParallelPlan plan = plan_of(request, config);
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

ParallelPlans plan_parallel(const ParallelRequest& request) {
  check_request(request);
  ParallelPlans all;
  for (const std::int64_t tensor : divisors(request.ranks)) {
    if (request.tensor && tensor != *request.tensor) continue;
    for (const auto& [context, pipeline] : pairs_of_divisors(request.ranks / tensor)) {
      if (request.context && context != *request.context) continue;
      if (request.pipeline && pipeline != *request.pipeline) continue;
      const MeshSizes mesh{.tensor = static_cast<int>(tensor),
                           .context = static_cast<int>(context),
                           .data = static_cast<int>(request.ranks / tensor / context / pipeline),
                           .pipeline = static_cast<int>(pipeline)};
      if (std::string reason = reason_against(request, mesh); !reason.empty()) {
        all.left_out.push_back({mesh, request.zero.value_or(0), 0, std::move(reason)});
        continue;
      }
      for (int zero = 0; zero <= (mesh.data_and_context() == 1 ? 0 : 3); ++zero) {
        if (request.zero && zero != *request.zero && mesh.data_and_context() > 1) continue;
        if (request.compress && zero > 0) continue;
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
    check(nearest != nullptr, "no mesh of {} is planned for this model: {}", grouped(request.ranks, "rank"),
          all.left_out.front().reason);
    fail(
        "no mesh of {} fits into {} a rank: the least, {} tensor x {} context x {} pipeline x {} data with "
        "ZeRO "
        "{}, takes {}",
        grouped(request.ranks, "rank"), bytes_text(request.memory), nearest->mesh.tensor,
        nearest->mesh.context, nearest->mesh.pipeline, nearest->mesh.data, nearest->zero,
        bytes_text(nearest->least_bytes));
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
