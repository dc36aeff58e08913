#pragma once

#include "kernels/common/kernel.h"

/// c = a b for a of [m, k] and b of [k, n], row-major, all sizes multiples of 16. Blocks have 16 x 16
/// threads; blockIdx.y counts 16 rows of c each, blockIdx.x 16 columns.
extern "C" __global__ void tiled_product(const float* a, const float* b, float* c, int n, int k);

/// Returns *element, an element of a or b in global memory. The test counts the calls.
extern "C" float read_global(const float* element);
