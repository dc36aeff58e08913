#pragma once

#include <cstdint>

#include "kernels/common/launcher.h"

/// Launchers of the kernels in bench_simt.cu: simple work, so that the executor dominates the time.

/// y = max(x, 0)
RINGTAPE_LAUNCHER(bench_relu, const float* x, float* y, std::int64_t n);
/// y = a x + y
RINGTAPE_LAUNCHER(bench_axpy, float a, const float* x, float* y, std::int64_t n);
/// Adam without bias corrections: four arrays read, three written.
RINGTAPE_LAUNCHER(bench_adam, const float* g, float* p, float* m, float* v, std::int64_t n);
/// total = sum of x, or of x^2. `partial` has kMaxReductionBlocks elements; `counter` must be 0, and is 0
/// again afterwards.
RINGTAPE_LAUNCHER(bench_sum, const float* x, std::int64_t n, float* partial, unsigned* counter, float* total);
RINGTAPE_LAUNCHER(bench_sum_squares, const float* x, std::int64_t n, float* partial, unsigned* counter,
                  float* total);
/// Every thread of `blocks` blocks passes `barriers` barriers.
RINGTAPE_LAUNCHER(bench_barriers, int blocks, int threads, int barriers);
/// Every thread of `blocks` blocks takes part in `sums` block_sum calls; the last result goes to `out`.
RINGTAPE_LAUNCHER(bench_block_sums, int blocks, int threads, int sums, float* out);
/// Every thread of `blocks` blocks makes `shuffles` shuffles; the last result goes to `out`.
RINGTAPE_LAUNCHER(bench_shuffles, int blocks, int threads, int shuffles, float* out);
