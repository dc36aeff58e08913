#pragma once

#include "kernels/launcher.h"

/// y[r, c] += bias[c] for a row-major y [rows, columns] whose rows start `ld` elements apart. Both have
/// `dtype`.
RINGTAPE_LAUNCHER(bias_add, DType dtype, const void* bias, void* y, std::int64_t rows, std::int64_t columns,
                  std::int64_t ld);

/// The gradient of bias_add: column sums of dy, a dense row-major [rows, columns]. d_bias[c] = sum over r of
/// dy[r, c], or += when `accumulate`. d_bias is f32 whatever the dtype of dy (f64 for f64). The order of
/// the sum depends on the shape alone.
RINGTAPE_LAUNCHER(bias_gradient, DType dtype, const void* dy, void* d_bias, std::int64_t rows,
                  std::int64_t columns, bool accumulate);
