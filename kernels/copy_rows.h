#pragma once

#include "kernels/common/launcher.h"

/// to[r, c] = from[r, c], or += when `accumulate`, for `rows` x `columns` elements of two row-major matrices
/// whose rows start `from_ld` and `to_ld` elements apart: a column range of a matrix, cut out or put in. Any
/// dtype; `accumulate` requires f32, bf16, f16 or, on the CPU, f64.
RINGTAPE_LAUNCHER(copy_rows, DType dtype, const void* from, std::int64_t from_ld, void* to,
                  std::int64_t to_ld, std::int64_t rows, std::int64_t columns, bool accumulate);
