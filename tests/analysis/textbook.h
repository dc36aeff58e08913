#pragma once

#include "kernels/launcher.h"

/// Launchers of textbook.cu: kernels whose cost is known from any book on CUDA, and kernels that are wrong.

/// One warp reads in[offset + stride * lane].
RINGTAPE_LAUNCHER(book_read_strided, const float* in, int stride, int offset, float* out);
/// One warp reads 16 bytes a lane, every `stride` floats, from in + offset on.
RINGTAPE_LAUNCHER(book_read_vectors, const float* in, int stride, int offset, float* out);
/// One warp writes the word stride * lane of shared memory and reads it back.
RINGTAPE_LAUNCHER(book_shared_strided, int stride, float* out);
/// The same with 8 and with 16 bytes a lane, at the word stride * lane.
RINGTAPE_LAUNCHER(book_shared_pairs, int stride, float* out);
RINGTAPE_LAUNCHER(book_shared_vectors, int stride, float* out);
/// All lanes of a warp read one word of shared memory.
RINGTAPE_LAUNCHER(book_shared_broadcast, float* out);
/// Each lane of a warp reads in[lane] as many times as its number says: 0 to 31.
RINGTAPE_LAUNCHER(book_uneven_loop, const float* in, float* out);
/// Each lane of a warp takes one of two ways: the first `split` lanes one, the others the other.
RINGTAPE_LAUNCHER(book_two_ways, int split, const float* in, float* out);
/// One thread of each of `blocks` blocks adds 1 to *count, after two barriers.
RINGTAPE_LAUNCHER(book_count, int blocks, unsigned* count);

/// A block of 64 threads: each reads what its neighbour has written, with or without a barrier between.
RINGTAPE_LAUNCHER(book_neighbours, bool with_barrier, float* out);
/// The first and only warp does the same, with a __syncwarp, or with a shuffle that orders nothing.
RINGTAPE_LAUNCHER(book_warp_neighbours, bool with_syncwarp, float* out);
/// Every thread reads a word, then thread 0 overwrites it: a race of the other kind.
RINGTAPE_LAUNCHER(book_overwrites, bool with_barrier, float* out);
/// A static __shared__ array of which only the even words are written before all are read.
RINGTAPE_LAUNCHER(book_unwritten_shared, float* out);
/// One warp copies in[lane] to out[lane + offset].
RINGTAPE_LAUNCHER(book_copy, const float* in, float* out, int offset);
/// A block of 32 x 32 threads transposes a tile in shared memory, reading its columns, and writes it with
/// neighbouring lanes `n` floats apart.
RINGTAPE_LAUNCHER(book_bad_transpose, const float* in, float* out, int n);
