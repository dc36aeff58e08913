#include "optim/clip.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "core/error.h"
#include "core/stream.h"
#include "kernels/clip.h"
#include "trace/spans.h"

namespace ringtape {
namespace {

GradientNorm* result_of(ParameterArena& arena) {
  return static_cast<GradientNorm*>(arena.norm_result().raw());
}

/// Throws Error unless `limit`, rounded to float, is above 0, and infinite only if `limit` is.
float checked_limit(const char* operation, const char* name, double limit) {
  check(limit > 0, "{}: {} must be above 0, found {}", operation, name, limit);
  const bool fits = limit <= std::numeric_limits<float>::max() && static_cast<float>(limit) > 0;
  check(fits || std::isinf(limit), "{}: {} must be infinite or from 1.4e-45 to 3.4e38, found {}", operation,
        name, limit);
  return static_cast<float>(limit);
}

/// Throws Error if the gradients may not change any more, since the next step will clip them.
void check_before_clip(const char* operation, const ParameterArena& arena) {
  check(!arena.gradients_are_final(),
        "{}: clip_grad_norm() has measured these gradients, and the next step applies its factor to them: "
        "expected {} before it",
        operation, operation);
}

/// total = the sum, or for the infinite norm the maximum, over the ranks that have other parts of the
/// gradients.
void reduce_over_ranks(const ParameterArena& arena, const Tensor& total, double norm_type) {
  const bool is_max = std::isinf(norm_type);
  if (arena.is_sharded()) {
    const ShardExchange& shards = arena.shard_exchange();
    (is_max ? shards.max : shards.sum)(total);
  }
  if (arena.division()) (is_max ? arena.division()->max : arena.division()->sum)(total);
  if (arena.stages()) (is_max ? arena.stages()->max : arena.stages()->sum)(total);
}

/// The norm of the gradients of all ranks.
void measure_over_ranks(const ParameterArena& arena, const GradientNormProblem& problem,
                        GradientNorm* result) {
  const double p = problem.norm_type;
  if (p != 1 && p != 2 && std::isfinite(p)) {
    GradientNormProblem largest = problem;
    largest.norm_type = INFINITY;
    largest.loss_scale = nullptr;
    measure_over_ranks(arena, largest, result);
  }
  const Stream stream = Stream::current(arena.device());
  const Tensor total = empty({}, DType::f64, arena.device());
  gradient_norm_total(stream, problem, result, total.data<double>());
  reduce_over_ranks(arena, total, p);
  gradient_norm_of_total(stream, problem, total.data<double>(), result);
}

/// Writes the norm and the factor, on the device.
GradientNormProblem measure(const char* operation, ParameterArena& arena, double max_norm, double norm_type) {
  const float limit = checked_limit(operation, "max_norm", max_norm);
  check(norm_type > 0, "{}: norm_type must be above 0, found {}", operation, norm_type);
  const GradientNormProblem problem{.gradients = arena.gradients().data<float>(),
                                    .tiles = arena.tiles(),
                                    .tile_count = arena.tile_count(),
                                    .has_grad = arena.has_counted_grad(),
                                    .norm_type = norm_type,
                                    .max_norm = limit,
                                    .loss_scale = arena.loss_scale()};
  const std::int64_t n = arena.shard_size();
  const bool is_finite = std::isfinite(norm_type);
  // Each element is read once, or twice for a norm that needs the largest element first.
  const bool reads_twice = is_finite && norm_type != 1 && norm_type != 2;
  add_work({.flops = is_finite ? (norm_type == 1 ? 1 : 2) * n : 0, .bytes = (reads_twice ? 8 : 4) * n});
  if (arena.is_sharded() || arena.division() || arena.stages()) {
    measure_over_ranks(arena, problem, result_of(arena));
  } else {
    gradient_norm(Stream::current(arena.device()), problem, result_of(arena));
  }
  return problem;
}

Tensor norm_of(ParameterArena& arena) {
  static_assert(offsetof(GradientNorm, norm) == 0);
  return arena.norm_result().alias({});
}

}  // namespace

Tensor clip_grad_norm(ParameterArena& arena, double max_norm, const ClipNormOptions& options) {
  measure("clip_grad_norm", arena, max_norm, options.norm_type);
  const bool skips = options.skip_nonfinite || arena.loss_scale() != nullptr;
  arena.set_clip_factor(&result_of(arena)->clip_factor, skips || std::isfinite(max_norm));
  arena.set_skip(skips ? &result_of(arena)->nonfinite : nullptr);
  return norm_of(arena);
}

Tensor clip_grad_norm_now(ParameterArena& arena, double max_norm, double norm_type) {
  check(!arena.is_sharded(),
        "clip_grad_norm_now: found gradients sharded over {} ranks, expected unsharded ones",
        arena.sharding().world_size);
  check_before_clip("clip_grad_norm_now", arena);
  arena.set_clip_factor(nullptr);  // of an earlier measurement, which this one overwrites
  GradientNormProblem problem = measure("clip_grad_norm_now", arena, max_norm, norm_type);
  problem.has_grad = arena.has_grad();
  const std::int64_t n = arena.size();
  add_work({.flops = n, .bytes = 8 * n});  // the gradients are scaled in memory
  clip_gradients(Stream::current(arena.device()), problem, result_of(arena), arena.gradients().data<float>());
  return norm_of(arena);
}

void clip_grad_value(ParameterArena& arena, double limit) {
  const float checked = checked_limit("clip_grad_value", "limit", limit);
  check_before_clip("clip_grad_value", arena);
  const Tensor& gradients = arena.gradients();
  add_work({.bytes = 2 * static_cast<std::int64_t>(gradients.bytes())});
  clip_value(Stream::current(arena.device()), gradients.data<float>(), gradients.elements(), checked,
             arena.loss_scale());
}

}  // namespace ringtape
