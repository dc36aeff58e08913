#pragma once

#include "kernels/common/launcher.h"

/// The kernels of the lesson "From a thread to a block".

/// y = 2 x for n elements, by a grid of `blocks` blocks of `threads` threads, one element per thread.
/// block[i] and thread[i] become the block and the thread of element i.
RINGTAPE_LAUNCHER(lesson_double, int blocks, int threads, int n, const float* x, float* y, int* block,
                  int* thread);

/// sums[b] = the sum of the `threads` elements of block b, by halving in shared memory. With `threads` not a
/// power of two some elements are left out. Without the loop's barriers this is a race.
RINGTAPE_LAUNCHER(lesson_block_sum, int blocks, int threads, bool with_barriers, const float* x, float* sums);
