#pragma once

#include "kernels/common/kernel.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "kernels/arena.h"
#include "kernels/common/store_result.h"

/// Functions shared by the optimizers' kernels.
namespace ringtape::RINGTAPE_TARGET {

/// The shape of a kernel with one block for each tile, and at least `least` blocks.
inline LaunchShape tile_shape(const ArenaView& arena, unsigned least = 0) {
  return {std::max(static_cast<unsigned>(arena.tile_count), least), kGpuGeometry ? 128u : 1u};
}

/// The shape of a kernel that goes through the parameters by for_each_with_grad.
inline LaunchShape parameter_shape(const ArenaView& arena) {
  return elementwise_shape<ParameterOptions>(arena.parameter_count);
}

/// The two factors of every gradient. They are applied one after the other: their product may be subnormal.
__device__ inline float unscale_factor_of(const ArenaView& arena) {
  return arena.loss_scale == nullptr ? 1.0f : 1 / *arena.loss_scale;
}
__device__ inline float clip_factor_of(const ArenaView& arena) {
  return arena.clip_factor == nullptr ? 1.0f : *arena.clip_factor;
}

/// True where the whole update must be skipped.
__device__ inline bool is_skipped(const ArenaView& arena) {
  return arena.skip != nullptr && *arena.skip != 0;
}

/// False where parameter p has no gradient, or the whole update must be skipped.
__device__ inline bool takes_part(const ArenaView& arena, std::int64_t p) {
  const bool has_grad = arena.has_grad[p] != 0;  // read at the same time as `skip`, not after it
  return has_grad & !is_skipped(arena);
}

/// All threads of a step's first launch must call this or for_each_with_grad(), which counts too. The launch
/// has at least one block: a rank whose shard has no parameter, and so no tile, counts as the others do.
__device__ inline void count_if_skipped(const ArenaView& arena) {
  // The other threads need not wait for the flag.
  if (blockIdx.x == 0 && threadIdx.x == 0 && is_skipped(arena)) ++*arena.skipped_updates;
}

/// The start of the tile's elements in each buffer.
__device__ inline float* values_of(const ArenaView& arena, const Tile& tile) {
  return arena.values + tile.offset;
}
__device__ inline const float* gradients_of(const ArenaView& arena, const Tile& tile) {
  return arena.gradients + tile.offset + tile.gradient_shift;
}
__device__ inline float* state_of(float* state, const Tile& tile) {
  return state + tile.offset + tile.state_shift;
}

/// Calls body(i, lanes) for the tile's elements i to i + lanes - 1, counted from its beginning, until all
/// have been visited, and writes the returned values, and their 16-bit copy where there is one.
template <class Body>
__device__ void update_values(const ArenaView& arena, const Tile& tile, const Body& body) {
  float* const to = values_of(arena, tile);
  const auto run = [&](auto copy) {
    using Copy = decltype(copy);
    for_each_vec_in_block<float>(tile.length, [=](std::int64_t i, auto lanes) {
      const auto values = body(i, lanes);
      store_vec(to + i, values);
      if constexpr (!std::is_same_v<Copy, std::nullptr_t>) store_result(copy + i, values, false);
    });
  };
  // The branch is outside of the loops, so that compilers vectorise them.
  if (arena.low_precision == nullptr) {
    run(nullptr);
  } else if (arena.low_precision_dtype == DType::bf16) {
    run(static_cast<bfloat16*>(arena.low_precision) + tile.offset);
  } else {
    run(static_cast<float16*>(arena.low_precision) + tile.offset);
  }
}

/// Calls prepare(p, t, options, learning rate) for each parameter p that takes part in the update, after it
/// has counted in steps[p] that this is the parameter's step t. For the first launch of a step: it also
/// counts an update that is skipped.
template <class Prepare>
__device__ void for_each_with_grad(const ArenaView& arena, std::int64_t* steps, const Prepare& prepare) {
  for_each_vec<ParameterOptions>(arena.parameter_count, [=](std::int64_t p, auto) {
    // All reads before the branches: they wait for memory together.
    const bool has_grad = arena.has_grad[p] != 0, skipped = is_skipped(arena);
    const ParameterOptions options = arena.options[p];
    const double learning_rate = static_cast<double>(*arena.learning_rate) * options.lr_scale;
    const std::int64_t t = steps[p] + 1;
    if (skipped) {
      if (p == 0) ++*arena.skipped_updates;
    } else if (has_grad) {
      steps[p] = t;
      prepare(p, t, options, learning_rate);
    }
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
