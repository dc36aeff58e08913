#pragma once

#include "kernels/common/launcher.h"

/// y = e^(x - m) / (sum over the row of e^(x - m)), m the row's largest, for x and y [rows, columns] of f32,
/// bf16, f16 or, on the CPU, f64. A row of -inf alone gives NaN, as in PyTorch.
RINGTAPE_LAUNCHER(softmax_forward, DType dtype, const void* x, void* y, std::int64_t rows,
                  std::int64_t columns);

/// dx (+)= y * (dy - sum over the row of y * dy)
RINGTAPE_LAUNCHER(softmax_backward, DType dtype, const void* y, const void* dy, void* dx, std::int64_t rows,
                  std::int64_t columns, bool accumulate);
