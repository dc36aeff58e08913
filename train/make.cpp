#include "train/make.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "dist/compress_hook.h"
#include "nn/compute_dtype.h"

namespace ringtape {
namespace {

/// The settings in the options, and the defaults of the optimizer's kind for the others.
OptimizerSettings settings_of(const OptimizerOptions& options) {
  const OptimizerSettings& own = options.kind->defaults;
  return {.learning_rate = options.learning_rate.value_or(own.learning_rate),
          .weight_decay = options.weight_decay.value_or(own.weight_decay),
          .momentum = options.momentum.value_or(own.momentum),
          .beta1 = options.beta1.value_or(own.beta1),
          .beta2 = options.beta2.value_or(own.beta2)};
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterArena& arena) {
  std::vector<ParameterGroup> groups;
  const ParameterGroup biases = no_decay_below_two_dimensions();
  const bool has_biases = std::any_of(arena.entries().begin(), arena.entries().end(), biases.contains);
  if (!options.decay_biases && has_biases) groups.push_back(biases);
  return options.kind->make(arena, settings_of(options), groups);
}

std::int64_t state_per_parameter(const OptimizerOptions& options) {
  return options.kind->state_per_parameter(settings_of(options));
}

DType compute_dtype(const PrecisionOptions& options, Device device) {
  return options.dtype.value_or(half_dtype(device));
}

MeshSizes mesh_sizes(const DistributionOptions& options) {
  return {.tensor = options.tensor_parallel,
          .context = options.context_parallel,
          .pipeline = options.pipeline_parallel};
}

BucketSizes bucket_sizes(const DistributionOptions& options) {
  return buckets_of_mib(options.bucket_mib);
}

std::shared_ptr<CommHook> make_comm_hook(const DistributionOptions& options, const ParameterArena& arena,
                                         int ranks) {
  if (!options.compress || ranks == 1) return nullptr;
  constexpr bool kErrorFeedback = false;
  return std::make_shared<CompressHook>(arena, *options.compress, kErrorFeedback);
}

ArenaSharding make_sharding(const DistributionOptions& options, int rank, int world_size) {
  check(
      options.zero < 2 || !options.no_overlap,
      "--zero {} has no memory for all gradients until backward ends, as --no-overlap requires: expected at "
      "most --zero 1 with it",
      options.zero);
  return {.zero_stage = world_size > 1 ? options.zero : 0,
          .rank = rank,
          .world_size = world_size,
          .bucket_sizes = bucket_sizes(options),
          .reshard_after_forward = !options.no_reshard};
}

}  // namespace ringtape
