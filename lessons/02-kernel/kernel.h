#pragma once

#include "kernels/common/launcher.h"

/// The kernels of the lesson "From a thread to a block".

/// y = 2 x for n elements, by a grid of `blocks` blocks of `threads` threads, an element for each thread.
/// block[i] and thread[i] become the block and the thread of element i.
RINGTAPE_LAUNCHER(lesson_double, int blocks, int threads, int n, const float* x, float* y, int* block,
                  int* thread);

/// sums[b] = the sum of the `threads` elements of block b, for a power of two, by halving in shared memory.
/// Without the loop's barriers this is a race.
RINGTAPE_LAUNCHER(lesson_block_sum, int blocks, int threads, bool with_barriers, const float* x, float* sums);
