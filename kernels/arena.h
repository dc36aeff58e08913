#pragma once

#include <cstdint>

#include "core/dtype.h"

/// The parameter arena as kernels read it: a flat array split into tiles, each within one parameter.
namespace ringtape {

/// Elements [offset, offset + length) of the arena; all belong to parameter number `parameter`.
struct Tile {
  std::int64_t offset;  ///< a multiple of kTileAlignment
  std::int32_t length;  ///< 1 to kTileElements
  std::int32_t parameter;
  /// A rank's shard of the gradients or of the optimizer's state has other offsets than the values in the
  /// arena: its elements begin at `offset` plus this shift. 0 without sharding.
  std::int64_t gradient_shift = 0;
  std::int64_t state_shift = 0;
};

constexpr std::int32_t kTileElements = 8192;
constexpr std::int64_t kTileAlignment = 64;

/// The optimizer's settings of one parameter.
struct ParameterOptions {
  float lr_scale;                ///< multiplies the learning rate
  float weight_decay;            ///< lambda of the L2 or the decoupled decay
  std::int32_t use_trust_ratio;  ///< LAMB, LARS: 1 where the rate is scaled by the ratio of norms, else 0
};

/// The arena for an optimizer's launch. All pointers are on the device.
struct ArenaView {
  float* values;
  void* low_precision;  ///< bf16 or f16 copy of the values, at the same offsets, written with them; or null
  DType low_precision_dtype;
  const float* gradients;  ///< of a tile: at offset + gradient_shift
  const Tile* tiles;
  std::int64_t tile_count;
  std::int64_t parameter_count;
  const ParameterOptions* options;  ///< [parameter_count]
  const std::uint8_t*
      has_grad;  ///< [parameter_count]; 0: the parameter has no gradient and is skipped entirely
  const float* learning_rate;
  const float* loss_scale;        ///< every gradient is divided by it as it is read; null for none
  const float* clip_factor;       ///< and then multiplied by this; null for none
  const int* skip;                ///< not 0: the step changes nothing and is not counted; null for never
  std::int64_t* skipped_updates;  ///< number of updates skipped so far; unused without `skip`
};

}  // namespace ringtape
