#pragma once

#include <cstdint>

#include "kernels/launcher.h"

/// Launchers of the test kernels in simt_kernels.cu.

/// total[0] = sum of x[0..n), through block_sum and last_block_done. `partial` holds kMaxReductionBlocks
/// floats, `counter` is 0.
RINGTAPE_LAUNCHER(test_sum, const float* x, std::int64_t n, float* partial, unsigned* counter, float* total);
/// y = max(x, 0).
RINGTAPE_LAUNCHER(test_relu, DType dtype, const void* x, void* y, std::int64_t n);
