#pragma once

#include "kernels/common/launcher.h"

/// Sums: within a thread in f32 (f64, CPU only, in f64), then in double. The order depends only on the sizes.

/// y[o, i] (+)= scale * sum over m of x[o, m, i], for x [outer, mid, inner] and y [outer, inner] of dtype
/// `to`, which is `from` or f32. With outer = 1 this is the sum of each column, with inner = 1 of each row,
/// with both the sum of all elements.
RINGTAPE_LAUNCHER(sum_dim, DType from, const void* x, std::int64_t outer, std::int64_t mid,
                  std::int64_t inner, double scale, DType to, void* y, bool accumulate);

/// y[o, m, i] (+)= scale * x[o, i]: the gradient of sum_dim.
RINGTAPE_LAUNCHER(broadcast_dim, DType dtype, const void* x, std::int64_t outer, std::int64_t mid,
                  std::int64_t inner, double scale, void* y, bool accumulate);
