#include "kernels/common/kernel.h"

#include "kernels/loss_scale.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void loss_scale_update(const int* overflow, LossScaleRule rule, LossScaleState state) {
  const float scale = *state.scale;
  if (*overflow != 0) {
    *state.overflows_at_floor = scale <= rule.floor ? *state.overflows_at_floor + 1 : 0;
    *state.scale = maximum(scale * rule.backoff_factor, rule.floor);
    *state.growth_tracker = 0;
    return;
  }
  *state.overflows_at_floor = 0;
  if (++*state.growth_tracker < rule.growth_interval) return;
  *state.growth_tracker = 0;
  const float grown = scale * rule.growth_factor;
  if (isfinite(grown)) *state.scale = grown;
}

}  // namespace

void update_loss_scale(const Stream& stream, const int* overflow, const LossScaleRule& rule,
                       const LossScaleState& state) {
  launch(loss_scale_update, {1u, 1u}, stream, overflow, rule, state);
}

}  // namespace ringtape::RINGTAPE_TARGET
