#pragma once

#include "kernels/common/kernel.h"

/// Each block adds up its threads' elements, x[blockIdx.x * blockDim.x + threadIdx.x], and writes the sum to
/// sums[blockIdx.x]. blockDim.x is a multiple of 32, at most 1024.
extern "C" __global__ void block_sum(const float* x, float* sums);
