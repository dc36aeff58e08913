#include "kernels/common/kernel.h"

#include "kernels/arena_kernel.h"
#include "kernels/lars.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void lars_tile_norms(LarsStep step) {
  count_if_skipped(step.arena);
  if (step.arena.tile_count == 0) return;
  const Tile tile = step.arena.tiles[blockIdx.x];
  if (!takes_part(step.arena, tile.parameter)) return;
  const float* const values = values_of(step.arena, tile);
  const float* const gradients = gradients_of(step.arena, tile);
  LaneSum<double> of_values, of_gradients;
  for_each_vec_in_block<float>(tile.length, [&](std::int64_t i, auto lanes, int slot) {
    const auto w = load_vec<lanes>(values + i);
    const auto g = load_vec<lanes>(gradients + i);
    for (int k = 0; k < lanes; ++k) {
      const double value = w[k];
      const double gradient = g[k];
      of_values.add(slot + k, value * value);
      of_gradients.add(slot + k, gradient * gradient);
    }
  });
  const double values_sum = block_sum(of_values.total());
  const double gradients_sum = block_sum(of_gradients.total());
  if (threadIdx.x == 0) step.tile_norms[blockIdx.x] = {values_sum, gradients_sum};
}

/// The parameter's local learning rate, relative to the global one.
__device__ float local_rate(const LarsStep& step, std::int64_t p) {
  const ParameterOptions options = step.arena.options[p];
  const double values = sqrt(step.norms[p].values);
  const double factor = static_cast<double>(unscale_factor_of(step.arena)) * clip_factor_of(step.arena);
  const double gradients = factor * sqrt(step.norms[p].step);
  if (options.use_trust_ratio == 0 || !(values > 0 && gradients > 0)) return 1;
  const double whole = gradients + options.weight_decay * values + step.eps;
  return static_cast<float>(step.trust_coefficient * values / whole);
}

__global__ void lars_update(LarsStep step) {
  const Tile tile = step.arena.tiles[blockIdx.x];
  const ParameterOptions options = step.arena.options[tile.parameter];
  if (!takes_part(step.arena, tile.parameter)) return;
  const float unscale = unscale_factor_of(step.arena);
  const float clip = clip_factor_of(step.arena);
  const float local = local_rate(step, tile.parameter);
  const float learning_rate = *step.arena.learning_rate * options.lr_scale;
  const float momentum = static_cast<float>(step.momentum);
  const float* const values = values_of(step.arena, tile);
  const float* const gradients = gradients_of(step.arena, tile);
  float* const buffers = state_of(step.momentum_buffer, tile);
  update_values(step.arena, tile, [=](std::int64_t i, auto lanes) {
    auto w = load_vec<lanes>(values + i);
    const auto g = load_vec<lanes>(gradients + i);
    auto v = load_vec<lanes>(buffers + i);
    for (int k = 0; k < lanes; ++k) {
      v[k] = momentum * v[k] + local * (clip * (unscale * g[k]) + options.weight_decay * w[k]);
      w[k] -= learning_rate * v[k];
    }
    store_vec(buffers + i, v);
    return w;
  });
}

}  // namespace

void lars_norms(const Stream& stream, const LarsStep& step) {
  launch(lars_tile_norms, tile_shape(step.arena, 1), stream, step);
  sum_tile_norms(stream, step.arena, step.tile_norms, step.norms);
}

void lars_values(const Stream& stream, const LarsStep& step) {
  launch(lars_update, tile_shape(step.arena), stream, step);
}

}  // namespace ringtape::RINGTAPE_TARGET
