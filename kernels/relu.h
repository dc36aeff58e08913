#pragma once

#include "kernels/common/launcher.h"

/// y[i] = max(x[i], 0); NaN stays NaN, as in PyTorch. f32, bf16, f16 and, on the CPU, f64. y may be x.
RINGTAPE_LAUNCHER(relu_forward, DType dtype, const void* x, void* y, std::int64_t n);

/// dx[i] (+)= dy[i] where the output y[i] > 0 (or NaN), 0 elsewhere. Needs only the output, so the input's
/// memory can be freed after the forward. dx may be dy unless `accumulate`.
RINGTAPE_LAUNCHER(relu_backward, DType dtype, const void* y, const void* dy, void* dx, std::int64_t n,
                  bool accumulate);
