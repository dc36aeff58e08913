#pragma once

#include "kernels/common/launcher.h"

/// Launchers of textbook.cu: kernels whose cost is known from books on CUDA, and kernels with bugs.

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
/// Lane i of a warp reads in[i] i times: 0 to 31.
RINGTAPE_LAUNCHER(book_uneven_loop, const float* in, float* out);
/// Each lane of a warp takes one of two branches: the first `split` lanes one, the others the other.
RINGTAPE_LAUNCHER(book_two_ways, int split, const float* in, float* out);
/// One thread of each of `blocks` blocks adds 1 to *count, after two barriers.
RINGTAPE_LAUNCHER(book_count, int blocks, unsigned* count);

/// A block of 64 threads: each reads its neighbour's word, with or without a barrier after the writes.
RINGTAPE_LAUNCHER(book_neighbours, bool with_barrier, float* out);
/// The first and only warp does the same, with a __syncwarp, or with a shuffle that orders nothing.
RINGTAPE_LAUNCHER(book_warp_neighbours, bool with_syncwarp, float* out);
/// A block of `threads` threads: each reads its neighbour's word, with a block_sum after the writes.
RINGTAPE_LAUNCHER(book_neighbours_after_reduction, int threads, float* out);
/// Every thread reads a word, then thread 0 overwrites it: a write-after-read race.
RINGTAPE_LAUNCHER(book_overwrites, bool with_barrier, float* out);
/// A static __shared__ array of which only the even words are written before all are read.
RINGTAPE_LAUNCHER(book_unwritten_shared, float* out);
/// One warp copies in[lane] to out[lane + offset].
RINGTAPE_LAUNCHER(book_copy, const float* in, float* out, int offset);
/// One lane of a warp takes another branch than the others.
RINGTAPE_LAUNCHER(book_one_parts, int which, const float* in, float* out);
/// Shuffles up and down, whose lanes at the ends keep their own value.
RINGTAPE_LAUNCHER(book_shuffle_down, const float* in, float* out);
/// A warp reads a variable of the program.
RINGTAPE_LAUNCHER(book_read_table, float* out);
/// A block of 1024 threads: block_max of a float, then block_sum of a double.
RINGTAPE_LAUNCHER(book_two_reductions, float* out);
/// All lanes read a word, lane 0 first; then, after a shuffle alone, lane 0 overwrites it.
RINGTAPE_LAUNCHER(book_late_reader, float* out);
/// Each half of a warp has its own __syncwarp; then each lane reads the word of lane ^ neighbour.
RINGTAPE_LAUNCHER(book_half_warps, int neighbour, float* out);
/// The second of two blocks reads shared memory that only the first has written.
RINGTAPE_LAUNCHER(book_left_by_another_block, float* out);
/// 64 threads add to a word of shared memory, which thread 0 has set to 0, or no thread has.
RINGTAPE_LAUNCHER(book_shared_count, bool from_zero, float* out);
/// A warp reads a buffer while its asynchronous copies into the other, or the same one, are in flight; with
/// barriers before and after the read, or without.
RINGTAPE_LAUNCHER(book_copies_ahead, int buffers, bool with_barriers, const float* in, float* out);
/// A block of 32 x 32 threads transposes a tile in shared memory, reading its columns, and writes it with
/// neighbouring lanes `n` floats apart.
RINGTAPE_LAUNCHER(book_bad_transpose, const float* in, float* out, int n);
