#include "kernels/common/kernel.h"

#include "kernels/adam.h"
#include "kernels/arena_kernel.h"
#include "kernels/common/math.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Counts the step of each parameter that has a gradient and computes its factors in double: in float 1 -
/// 0.999 has a relative error of 1.3e-5.
__global__ void adam_coefficients(AdamStep step) {
  for_each_with_grad(
      step.arena, step.steps,
      [=](std::int64_t p, std::int64_t t, const ParameterOptions& options, double learning_rate) {
        const double decay = options.weight_decay;
        AdamCoefficients c;
        c.decay = step.decoupled_decay ? static_cast<float>(learning_rate * decay) : 0;
        c.l2 = step.decoupled_decay ? 0 : static_cast<float>(decay);
        c.step_size = static_cast<float>(learning_rate / (1 - power(step.beta1, t)));
        c.inverse_root = static_cast<float>(1 / sqrt(1 - power(step.beta2, t)));
        step.coefficients[p] = c;
      });
}

__global__ void adam_update(AdamStep step) {
  const Tile tile = step.arena.tiles[blockIdx.x];
  const AdamCoefficients c = step.coefficients[tile.parameter];
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
  update_values(step.arena, tile, [=](std::int64_t i, auto lanes) {
    auto w = load_vec<lanes>(values + i);
    const auto gradient = load_vec<lanes>(gradients + i);
    auto m = load_vec<lanes>(first_moments + i);
    auto v = load_vec<lanes>(second_moments + i);
    for (int k = 0; k < lanes; ++k) {
      const float g = clip * (unscale * gradient[k]) + c.l2 * w[k];
      m[k] += weight1 * (g - m[k]);
      v[k] = beta2 * v[k] + weight2 * g * g;
      w[k] -= c.decay * w[k] + c.step_size * m[k] / (sqrtf(v[k]) * c.inverse_root + eps);
    }
    store_vec(first_moments + i, m);
    store_vec(second_moments + i, v);
    return w;
  });
}

}  // namespace

void adam_step(const Stream& stream, const AdamStep& step) {
  launch(adam_coefficients, parameter_shape(step.arena), stream, step);
  launch(adam_update, tile_shape(step.arena), stream, step);
}

}  // namespace ringtape::RINGTAPE_TARGET
