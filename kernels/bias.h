#pragma once

#include "kernels/common/launcher.h"

/// y[r, c] += bias[c] for a row-major y [rows, columns] whose rows start `ld` elements apart. f32, bf16, f16
/// and, on the CPU, f64; both have `dtype`.
RINGTAPE_LAUNCHER(bias_add, DType dtype, const void* bias, void* y, std::int64_t rows, std::int64_t columns,
                  std::int64_t ld);

/// For each chunk of `chunk_rows` rows (the last may be shorter) of a dense x [rows, columns], the sum of
/// every column: sums [chunks, columns], f32 (f64 for f64). `accumulate` adds to what `sums` holds.
RINGTAPE_LAUNCHER(column_sums, DType dtype, const void* x, void* sums, std::int64_t rows,
                  std::int64_t columns, std::int64_t chunk_rows, bool accumulate);

namespace ringtape {

/// The gradient of bias_add for a dense dy [rows, columns]: d_bias[c] = sum over r of dy[r, c], or += when
/// `accumulate`. d_bias is f32 whatever the dtype of dy (f64 for f64). The order of the additions depends
/// only on the shape. More than 1024 rows are summed in two stages, with a workspace from the device's memory
/// cache.
void bias_gradient(const Stream& stream, DType dtype, const void* dy, void* d_bias, std::int64_t rows,
                   std::int64_t columns, bool accumulate);

}  // namespace ringtape
