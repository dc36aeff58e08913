#pragma once

#include "kernels/common/launcher.h"

/// Random tensors from Philox4x32-10 (core/philox.h). Element i takes word i % 4 of counter `offset` + i / 4
/// under the key `seed`, so an operation on n elements uses ceil(n / 4) counters, and its values do not
/// depend on the device or the number of threads. dtype: f32, bf16, f16 and, on the CPU, f64 (drawn in f32,
/// then converted).

/// x[i] uniform in [low, high). On both devices the same bits.
RINGTAPE_LAUNCHER(uniform, DType dtype, void* x, std::int64_t n, float low, float high, std::uint64_t seed,
                  std::uint64_t offset);

/// x[i] normal with this mean and standard deviation, by the Box-Muller transform (Box and Muller, "A note on
/// the generation of random normal deviates", 1958): words 0 and 1 of a counter give two values, words 2 and
/// 3 two more. On both devices the same bits.
RINGTAPE_LAUNCHER(normal, DType dtype, void* x, std::int64_t n, float mean, float std, std::uint64_t seed,
                  std::uint64_t offset);
