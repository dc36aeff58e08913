#pragma once

#include "kernels/kernel.h"

#include "kernels/arena.h"

/// What the optimizers' kernels share.
namespace ringtape::RINGTAPE_TARGET {

/// The shape of a kernel with one block for each tile.
inline LaunchShape tile_shape(const ArenaView& arena) {
  return {static_cast<unsigned>(arena.tile_count), kGpuGeometry ? 256u : 1u};
}

/// The factor of every gradient as it is read.
__device__ inline float clip_factor_of(const ArenaView& arena) {
  return arena.clip_factor == nullptr ? 1.0f : *arena.clip_factor;
}

/// Calls prepare(p, learning rate) for each present parameter p.
template <class Prepare>
__device__ void for_each_present(const ArenaView& arena, const Prepare& prepare) {
  for_each_vec<double>(arena.parameter_count, [=](std::int64_t first, auto lanes) {
    for (std::int64_t p = first; p < first + lanes; ++p) {
      if (arena.present[p] == 0) continue;
      prepare(p, static_cast<double>(*arena.learning_rate) * arena.options[p].lr_scale);
    }
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
