#include "kernels/common/kernel.h"

#include "kernels/arena_kernel.h"
#include "kernels/sgd.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Counts the step of each parameter that has a gradient and computes its factors.
__global__ void sgd_coefficients(SgdStep step) {
  for_each_with_grad(
      step.arena, step.steps,
      [=](std::int64_t p, std::int64_t t, const ParameterOptions& options, double learning_rate) {
        const bool first = t == 1;
        SgdCoefficients c;
        c.learning_rate = static_cast<float>(learning_rate);
        c.weight_decay = options.weight_decay;
        c.momentum = first ? 0 : static_cast<float>(step.momentum);
        c.gradient_weight = first ? 1 : static_cast<float>(1 - step.dampening);
        step.coefficients[p] = c;
      });
}

__global__ void sgd_update(SgdStep step) {
  const Tile tile = step.arena.tiles[blockIdx.x];
  const SgdCoefficients c = step.coefficients[tile.parameter];
  if (!takes_part(step.arena, tile.parameter)) return;
  const float unscale = unscale_factor_of(step.arena);
  const float clip = clip_factor_of(step.arena);
  const float* const values = values_of(step.arena, tile);
  const float* const gradients = gradients_of(step.arena, tile);
  update_values(step.arena, tile, [=](std::int64_t i, auto lanes) {
    auto w = load_vec<lanes>(values + i);
    const auto gradient = load_vec<lanes>(gradients + i);
    for (int k = 0; k < lanes; ++k) {
      const float g = clip * (unscale * gradient[k]) + c.weight_decay * w[k];
      w[k] -= c.learning_rate * g;
    }
    return w;
  });
}

__global__ void sgd_momentum_update(SgdStep step) {
  const Tile tile = step.arena.tiles[blockIdx.x];
  const SgdCoefficients c = step.coefficients[tile.parameter];
  if (!takes_part(step.arena, tile.parameter)) return;
  const float unscale = unscale_factor_of(step.arena);
  const float clip = clip_factor_of(step.arena);
  const float momentum = static_cast<float>(step.momentum);
  const float* const values = values_of(step.arena, tile);
  const float* const gradients = gradients_of(step.arena, tile);
  float* const buffers = state_of(step.momentum_buffer, tile);
  update_values(step.arena, tile, [=](std::int64_t i, auto lanes) {
    auto w = load_vec<lanes>(values + i);
    const auto gradient = load_vec<lanes>(gradients + i);
    auto b = load_vec<lanes>(buffers + i);
    for (int k = 0; k < lanes; ++k) {
      const float g = clip * (unscale * gradient[k]) + c.weight_decay * w[k];
      b[k] = c.momentum * b[k] + c.gradient_weight * g;
      w[k] -= c.learning_rate * (step.nesterov ? g + momentum * b[k] : b[k]);
    }
    store_vec(buffers + i, b);
    return w;
  });
}

}  // namespace

void sgd_step(const Stream& stream, const SgdStep& step) {
  launch(sgd_coefficients, parameter_shape(step.arena), stream, step);
  if (step.momentum == 0) {
    launch(sgd_update, tile_shape(step.arena), stream, step);
  } else {
    launch(sgd_momentum_update, tile_shape(step.arena), stream, step);
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
