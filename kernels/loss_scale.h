#pragma once

#include "kernels/common/launcher.h"

namespace ringtape {

/// How a dynamic loss scale changes: torch.amp.GradScaler's rule, with a lower bound.
struct LossScaleRule {
  float growth_factor;           ///< above 1
  float backoff_factor;          ///< in (0, 1)
  std::int32_t growth_interval;  ///< steps in a row without an overflow after which the scale grows
  float floor;                   ///< lower bound of the scale
};

/// A loss scale on the device; each pointer is to one element.
struct LossScaleState {
  float* scale;
  std::int32_t* growth_tracker;      ///< steps since the last overflow or growth
  std::int32_t* overflows_at_floor;  ///< steps in a row that overflowed with the scale at its floor
};

}  // namespace ringtape

/// Updates the scale after a step. *overflow not 0: scale = max(scale * backoff_factor, floor), tracker = 0.
/// Else the tracker is increased by 1; when it reaches growth_interval, scale *= growth_factor (unless the
/// product is infinite) and tracker = 0.
RINGTAPE_LAUNCHER(update_loss_scale, const int* overflow, const LossScaleRule& rule,
                  const LossScaleState& state);
