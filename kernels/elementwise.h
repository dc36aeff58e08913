#pragma once

#include "kernels/common/launcher.h"

/// Kernels that treat a tensor as an array of n elements. Pointers aligned to 16 bytes are fastest; any
/// element-aligned pointer is allowed. `floating` below means f32, bf16, f16 and, on the CPU, f64; 16-bit
/// types are computed in f32 and rounded once. An input may be the output itself (in place), but may not
/// overlap it otherwise. `accumulate`: y += result instead of y = result.

/// x[i] = value, rounded to dtype. Any dtype, f64 only on the CPU.
RINGTAPE_LAUNCHER(fill, DType dtype, void* x, std::int64_t n, double value);

/// x[i] = start + i * step, computed in double and rounded to dtype. Any dtype, f64 only on the CPU.
RINGTAPE_LAUNCHER(arange, DType dtype, void* x, std::int64_t n, double start, double step);

/// y[i] = x[i] converted. Any dtypes, f64 only on the CPU; to integers toward zero, as C++ does, to u8 from
/// values in [0, 255]. `accumulate` requires floating dtypes. Not in place.
RINGTAPE_LAUNCHER(cast, DType from, const void* x, DType to, void* y, std::int64_t n, bool accumulate);

/// x[i] *= *factor with a scalar on the device, in place; nothing is read or written when it is 1. Floating.
RINGTAPE_LAUNCHER(scale_by_device, DType dtype, void* x, std::int64_t n, const float* factor);

/// x[i] /= divisor, in place: f32, f64, bf16 and f16 on the CPU and on a GPU; 16-bit types are computed in
/// f32 and rounded once.
RINGTAPE_LAUNCHER(divide_by, DType dtype, void* x, std::int64_t n, double divisor);

/// y[i] = (x[i] / 255 - mean) / std: pixels to a normalised input of a floating dtype.
RINGTAPE_LAUNCHER(normalize_u8, const std::uint8_t* x, DType to, void* y, std::int64_t n, double mean,
                  double std);
