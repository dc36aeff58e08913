#pragma once

#include "kernels/common/launcher.h"

/// y[i] = 0 where r < p, else x[i] / (1 - p), with r the i-th value of uniform() from the same seed and
/// offset in [0, 1) (kernels/random.h): the mask can be computed again at any time. It uses ceil(n / 4)
/// counters. y may be x. f32, bf16, f16 and, on the CPU, f64.
RINGTAPE_LAUNCHER(dropout, DType dtype, const void* x, void* y, std::int64_t n, double p, std::uint64_t seed,
                  std::uint64_t offset);
