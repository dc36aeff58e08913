#pragma once

#include "kernels/arena.h"
#include "kernels/launcher.h"

/// Sums. f32, bf16 and f16 add up in f32, f64 (CPU) in f64. The order of every sum depends on the sizes
/// alone.

/// y[o, i] (+)= scale * sum over m of x[o, m, i], for x [outer, mid, inner] and y [outer, inner] of dtype
/// `to`, which is `from` or f32. With outer = 1 this is the sum of each column, with inner = 1 of each row,
/// with both the sum of everything.
RINGTAPE_LAUNCHER(sum_dim, DType from, const void* x, std::int64_t outer, std::int64_t mid,
                  std::int64_t inner, double scale, DType to, void* y, bool accumulate);

/// y[o, m, i] (+)= scale * x[o, i]: the gradient of sum_dim.
RINGTAPE_LAUNCHER(broadcast_dim, DType dtype, const void* x, std::int64_t outer, std::int64_t mid,
                  std::int64_t inner, double scale, void* y, bool accumulate);

namespace ringtape {

/// What gradient_norm leaves on the device.
struct GradientNorm {
  float norm;         ///< the Euclidean norm of all gradients
  float clip_factor;  ///< min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_; NaN for a NaN norm
  int nonfinite;      ///< 1 when the norm is infinite or NaN, else 0
};

}  // namespace ringtape

/// Norm of the gradients of all parameters that are present (see kernels/arena.h), in one launch. max_norm
/// infinite: the factor is 1 for every finite norm.
RINGTAPE_LAUNCHER(gradient_norm, const float* gradients, const Tile* tiles, std::int64_t tile_count,
                  const std::uint8_t* present, float max_norm, GradientNorm* result);

/// x[i] = min(max(x[i], -limit), limit); NaN stays NaN.
RINGTAPE_LAUNCHER(clip_value, float* x, std::int64_t n, float limit);
