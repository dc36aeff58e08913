#pragma once

#include "kernels/common/launcher.h"

/// Measures the peak rate of f32 multiply-adds in registers, in `blocks` x `threads` threads. Each thread
/// writes one float to `out`. *flops becomes the number of operations (two for each multiply-add).
RINGTAPE_LAUNCHER(peak_multiply_add, int blocks, int threads, int rounds, float* out, double* flops);
