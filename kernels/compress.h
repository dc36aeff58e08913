#pragma once

#include "kernels/common/launcher.h"

/// Compression of gradients to 16 bits for communication.

/// *result = the largest |x[i]|; infinity where an element is infinite or NaN, 0 without elements.
RINGTAPE_LAUNCHER(largest_abs, const float* x, std::int64_t n, float* result);

namespace ringtape {

/// Scaling into the range of f16, which ends at 65504: elements are multiplied by the power of two that
/// brings `*largest` times `world_size` into [16384, 32768), so that a sum over the ranks does not overflow.
struct CompressionScale {
  const float* largest;  ///< on the device: largest absolute value over all ranks; null: nothing is scaled
  int world_size;
};

}  // namespace ringtape

/// y[i] = (x[i] + residual[i]) * scale rounded to `to`, f16 or bf16. residual[i] becomes the unscaled
/// rounding error, or 0 if y[i] is not finite. `residual` may be null: no error feedback. Nothing is scaled
/// if the largest value is 0 or not finite.
RINGTAPE_LAUNCHER(compress, const float* x, std::int64_t n, const CompressionScale& scale, float* residual,
                  DType to, void* y);

/// x[i] = y[i] / scale.
RINGTAPE_LAUNCHER(decompress, DType from, const void* y, std::int64_t n, const CompressionScale& scale,
                  float* x);
