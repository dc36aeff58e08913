#pragma once

#include "kernels/common/launcher.h"

/// y[r, c] += bias[c] for a row-major y [rows, columns] whose rows start `ld` elements apart. f32, bf16, f16
/// and, on the CPU, f64; both have `dtype`.
RINGTAPE_LAUNCHER(bias_add, DType dtype, const void* bias, void* y, std::int64_t rows, std::int64_t columns,
                  std::int64_t ld);
