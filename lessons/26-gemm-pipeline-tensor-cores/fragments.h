#pragma once

#include "core/half.h"
#include "kernels/common/launcher.h"

/// The kernels of the lesson "Pipelining and tensor cores". Each runs on one warp.

/// Loads a 16 x 16 matrix as rung 9 of the GEMM ladder loads A, or with `transposed` as it loads B.
/// held[lane, 4] = the lane's registers, of two elements each, the first in the lower half.
RINGTAPE_LAUNCHER(lesson_load, bool transposed, const ringtape::bfloat16* matrix, unsigned* held);

/// One product of `unit`, the 16 x 16 unit matrix, by the left half, 16 x 8, of b [16, 16]. held[lane, 4] =
/// the lane's sums, which are elements of b.
RINGTAPE_LAUNCHER(lesson_multiply, const ringtape::bfloat16* unit, const ringtape::bfloat16* b, float* held);

/// *sum = the sum of n floats, a multiple of 128. The warp adds up 128 in a step, and meanwhile copies those
/// of the next step to shared memory by cp.async. Without `waits` it does not wait for a step's copies.
RINGTAPE_LAUNCHER(lesson_pipeline, bool waits, int n, const float* x, float* sum);
