#include "kernels/common/kernel.h"

#include "kernels/arena_kernel.h"
#include "kernels/common/math.h"
#include "kernels/lamb.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Counts the step of each parameter that has a gradient and computes its factors.
__global__ void lamb_coefficients(LambStep step) {
  for_each_with_grad(
      step.arena, step.steps,
      [=](std::int64_t p, std::int64_t t, const ParameterOptions& options, double learning_rate) {
        const double first_scale = 1 / (1 - power(step.beta1, t));
        const double inverse_root = 1 / sqrt(1 - power(step.beta2, t));
        LambCoefficients c{static_cast<float>(learning_rate), options.weight_decay, 1, 1};
        if (step.debias == LambDebias::in_norm) {
          c.first_scale = static_cast<float>(first_scale);
          c.inverse_root = static_cast<float>(inverse_root);
        } else if (step.debias == LambDebias::out_of_norm) {
          c.learning_rate = static_cast<float>(learning_rate * first_scale / inverse_root);
        }
        step.coefficients[p] = c;
      });
}

__device__ float lamb_direction(const LambCoefficients& c, float eps, float w, float m, float v) {
  return c.first_scale * m / (sqrtf(v) * c.inverse_root + eps) + c.weight_decay * w;
}

__global__ void lamb_moments(LambStep step) {
  const Tile tile = step.arena.tiles[blockIdx.x];
  const LambCoefficients c = step.coefficients[tile.parameter];
  if (!takes_part(step.arena, tile.parameter)) return;
  const float unscale = unscale_factor_of(step.arena);
  const float clip = clip_factor_of(step.arena);
  const float beta2 = static_cast<float>(step.beta2);
  const float weight1 = static_cast<float>(1 - step.beta1);
  const float weight2 = static_cast<float>(1 - step.beta2);
  const float eps = static_cast<float>(step.eps);
  const float* const values = values_of(step.arena, tile);
  const float* const gradients = gradients_of(step.arena, tile);
  float* const first_moments = state_of(step.first_moment, tile);
  float* const second_moments = state_of(step.second_moment, tile);

  LaneSum<double> of_values, of_update;
  for_each_vec_in_block<float>(tile.length, [&](std::int64_t i, auto lanes, int slot) {
    const auto w = load_vec<lanes>(values + i);
    const auto gradient = load_vec<lanes>(gradients + i);
    auto m = load_vec<lanes>(first_moments + i);
    auto v = load_vec<lanes>(second_moments + i);
    for (int k = 0; k < lanes; ++k) {
      const float g = clip * (unscale * gradient[k]);
      m[k] += weight1 * (g - m[k]);
      v[k] = beta2 * v[k] + weight2 * g * g;
      const double value = w[k];
      const double update = lamb_direction(c, eps, w[k], m[k], v[k]);
      of_values.add(slot + k, value * value);
      of_update.add(slot + k, update * update);
    }
    store_vec(first_moments + i, m);
    store_vec(second_moments + i, v);
  });
  const double values_sum = block_sum(of_values.total());
  const double update_sum = block_sum(of_update.total());
  if (threadIdx.x == 0) step.tile_norms[blockIdx.x] = {values_sum, update_sum};
}

/// ||w|| / ||u||, within its limits.
__device__ double trust_ratio(const LambStep& step, std::int64_t p) {
  const SquaredNorms norms = step.norms[p];
  if (step.arena.options[p].use_trust_ratio == 0 || !(norms.values > 0 && norms.step > 0)) return 1;
  return minimum(maximum(sqrt(norms.values) / sqrt(norms.step), step.min_ratio), step.max_ratio);
}

__global__ void lamb_update(LambStep step) {
  const Tile tile = step.arena.tiles[blockIdx.x];
  const LambCoefficients c = step.coefficients[tile.parameter];
  if (!takes_part(step.arena, tile.parameter)) return;
  const float rate = static_cast<float>(c.learning_rate * trust_ratio(step, tile.parameter));
  const float eps = static_cast<float>(step.eps);
  const float* const values = values_of(step.arena, tile);
  const float* const first_moments = state_of(step.first_moment, tile);
  const float* const second_moments = state_of(step.second_moment, tile);
  update_values(step.arena, tile, [=](std::int64_t i, auto lanes) {
    auto w = load_vec<lanes>(values + i);
    const auto m = load_vec<lanes>(first_moments + i);
    const auto v = load_vec<lanes>(second_moments + i);
    for (int k = 0; k < lanes; ++k) w[k] -= rate * lamb_direction(c, eps, w[k], m[k], v[k]);
    return w;
  });
}

}  // namespace

void lamb_norms(const Stream& stream, const LambStep& step) {
  launch(lamb_coefficients, parameter_shape(step.arena), stream, step);
  launch(lamb_moments, tile_shape(step.arena), stream, step);
  sum_tile_norms(stream, step.arena, step.tile_norms, step.norms);
}

void lamb_values(const Stream& stream, const LambStep& step) {
  launch(lamb_update, tile_shape(step.arena), stream, step);
}

}  // namespace ringtape::RINGTAPE_TARGET
