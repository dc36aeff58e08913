#pragma once

#include "kernels/common/launcher.h"

/// Launchers of tensor_core_kernels.cu: one warp, one instruction.

/// `matrices` are 4 x 8 x 8 16-bit elements, `registers` 32 x 4.
RINGTAPE_LAUNCHER(test_load_matrices, bool transposed, const void* matrices, unsigned* registers);
/// Each lane's registers of A (32 x 4), of B (32 x 2) and of the sums (32 x 4), as the instruction takes
/// them.
RINGTAPE_LAUNCHER(test_multiply_matrices, const unsigned* a, const unsigned* b, float* sums);
/// Each of 64 threads copies 16 bytes of each half of `from` (2 x 256 floats) to shared memory by cp.async,
/// in two groups, waits only for the first and then for both, and writes another thread's data to `first` and
/// `second`. With `waits` off it does not wait.
RINGTAPE_LAUNCHER(test_async_copies, bool waits, const float* from, float* first, float* second);
/// One thread copies `count` floats, each by a cp.async of its own, waits, and writes them to `to`.
RINGTAPE_LAUNCHER(test_many_copies, int count, bool in_groups, const float* from, float* to);
