#pragma once

#include <cstdint>

#include "kernels/common/launcher.h"

/// Launchers of the test kernels in builtins_kernels.cu: one for each CUDA built-in, or helper of
/// kernels/common/kernel.h, that must have the same meaning on both targets.

/// Grid (gx, gy, gz) of blocks (bx, by, bz). The thread of number i in the grid (blocks and threads numbered
/// with x fastest) writes its six indices to out[6 i ...].
RINGTAPE_LAUNCHER(test_indices, int gx, int gy, int gz, int bx, int by, int bz, int* out);
/// One block of n threads reverses n values through dynamic shared memory.
RINGTAPE_LAUNCHER(test_reverse, int n, const int* in, int* out);
/// One block of n threads with `bytes` of dynamic shared memory. out[0] becomes its last byte, to which
/// thread 0 wrote 7.
RINGTAPE_LAUNCHER(test_shared_memory, int n, std::size_t bytes, int* out);
/// One block of n threads of which all but `staying` return at once. The others pass `barriers` pairs of
/// barriers, and at each take their right neighbour's number from shared memory (the last takes the first's).
RINGTAPE_LAUNCHER(test_rotate, int n, int staying, int barriers, int* out);
/// One warp: for each lane the values of eight shuffles of 100 + lane (see the test).
RINGTAPE_LAUNCHER(test_shuffles, int* out);
/// One warp in two halves with a mask each; the upper half shuffles `rounds` times, the lower once.
RINGTAPE_LAUNCHER(test_partial_masks, int rounds, int* out);
/// One warp: ballot, any and all of in[lane] > 0, three values for each lane.
RINGTAPE_LAUNCHER(test_votes, const int* in, unsigned* out);
/// `blocks` blocks of `threads` threads. out[0..): block_sum, block_max, warp_sum, warp_max of in[i] for each
/// thread i of the grid. `dtype` is f32, f64 or i64.
RINGTAPE_LAUNCHER(test_reductions, DType dtype, int blocks, int threads, const void* in, void* out);
/// total[0] = sum of x[0..n) through for_each_vec, block_sum and last_block_done. `partial` has
/// kMaxReductionBlocks elements.
RINGTAPE_LAUNCHER(test_sum, const float* x, std::int64_t n, float* partial, unsigned* counter, float* total);
/// visits[i] += 1 for every call of the body of for_each_vec with element i, or of for_each_vec_in_block with
/// element i of rows x columns.
RINGTAPE_LAUNCHER(test_visits, DType dtype, std::int64_t n, int* visits);
RINGTAPE_LAUNCHER(test_row_visits, std::int64_t rows, std::int64_t columns, int* visits);
/// y = 2 x by load_vec and store_vec.
RINGTAPE_LAUNCHER(test_double, DType dtype, const void* x, void* y, std::int64_t n);
/// Every thread adds 1 to each of the three counters.
RINGTAPE_LAUNCHER(test_atomics, int blocks, int threads, int* a, unsigned* b, unsigned long long* c);
