#pragma once

#include "core/half.h"
#include "kernels/common/launcher.h"

/// The kernels of the lesson "Pipelining and tensor cores". Each runs on one warp.

/// Loads a 16 x 16 matrix as rung 9 of the GEMM ladder loads A, or with `transposed` as it loads B.
/// held[lane, 4] = the lane's registers, of two elements each, the first in the lower half.
RINGTAPE_LAUNCHER(lesson_load, bool transposed, const ringtape::bfloat16* matrix, unsigned* held);

/// One product of 16 x 16 by 16 x 8 with A the unit matrix: held[lane, 4] = the lane's sums, which are
/// elements of b, [16, 16], whose left half is multiplied.
RINGTAPE_LAUNCHER(lesson_multiply, const ringtape::bfloat16* unit, const ringtape::bfloat16* b, float* held);

/// Adds up n floats, a multiple of 128, in steps of 128, which the warp copies to shared memory by cp.async
/// while it adds up the step before. Without `waits` it does not wait for a step's copies.
RINGTAPE_LAUNCHER(lesson_pipeline, bool waits, int n, const float* x, float* sum);
