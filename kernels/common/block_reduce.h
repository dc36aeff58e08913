#pragma once

#include <cstdint>

#include "core/target.h"
#include "kernels/common/accumulate.h"
#include "kernels/common/elements.h"

/// Sums and maxima over a warp or a block. Every thread must take part, and every thread gets the result. The
/// values are combined in a butterfly: lane i with lane i + 16, then + 8, 4, 2, 1; then the warps' results in
/// the same way. The order depends only on the block's shape.
namespace ringtape::RINGTAPE_TARGET {

// The CPU could run the GPU's form below, and does in check builds and in the analysis, but each shuffle
// costs a fiber switch for every lane. So normal builds have one barrier, at which the last thread to arrive
// combines all values.
#if defined(RINGTAPE_FOR_GPU) || defined(RINGTAPE_CHECK) || defined(RINGTAPE_ANALYSIS)

/// Combines the values of lanes 0 to count - 1 of a warp that has only these lanes; every lane gets the
/// result.
template <class Op, class T>
__device__ inline T reduce_lanes(T value, int count) {
  if (count == 32) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      value = Op::combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    return value;
  }
  const unsigned mask = (1u << count) - 1;
  const int lane = thread_rank() % 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const T other = __shfl_down_sync(mask, value, step);
    if (lane + step < count) value = Op::combine(value, other);
  }
  return __shfl_sync(mask, value, 0);
}

/// Lanes of this thread's warp: 32, or fewer in the last warp of a block.
__device__ inline int warp_lanes() {
  return minimum(32, block_threads() - thread_rank() / 32 * 32);
}

template <class Op, class T>
__device__ inline T warp_reduce(T value, SourceLocation) {
  return reduce_lanes<Op>(value, warp_lanes());
}

/// One 8-byte word for each warp of a block, and one for the result. `static`, because in check builds GCC
/// keeps a variable in the section of shared memory only if its function is neither a template nor an inline
/// function with external linkage.
static __device__ inline std::uint64_t* reduce_words() {
  __shared__ std::uint64_t words[33];
  return words;
}

template <class Op, class T>
__device__ inline T block_reduce(T value, SourceLocation location) {
  const int warps = ceil_div(block_threads(), 32);
  value = warp_reduce<Op>(value, location);
  if (warps == 1) {
    __syncwarp();  // orders the lanes' accesses to memory, as the barriers below do; a shuffle orders none
    return value;
  }
  // Each value has a whole word, whatever T is: threads may still be reading words[32], the result of an
  // earlier reduction of another type, while this one writes the other words.
  const auto word = [](int i) { return reinterpret_cast<T*>(reduce_words() + i); };
  const int lane = thread_rank() % 32;
  const int warp = thread_rank() / 32;
  if (lane == 0) *word(warp) = value;
  __syncthreads();
  if (warp == 0) {
    // A lane beyond the last warp reads the first warp's value, which is not combined.
    value = *word(lane < warps ? lane : 0);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const T other = __shfl_down_sync(0xffffffffu, value, step);
      if (lane + step < warps) value = Op::combine(value, other);
    }
    if (lane == 0) *word(32) = value;
  }
  // After this barrier threads read only words[32], which the next call writes after its own first barrier.
  __syncthreads();
  return *word(32);
}

#else

/// values[0] becomes the combination of the `count` values, in the order of the butterfly.
template <class Op, class T>
inline void combine_tree(T* values, int count) {
  for (int step = 16; step > 0; step /= 2) {
    for (int i = 0; i < step && i + step < count; ++i) values[i] = Op::combine(values[i], values[i + step]);
  }
}

template <class T>
inline std::uint64_t to_word(T value) {
  std::uint64_t word = 0;
  __builtin_memcpy(&word, &value, sizeof value);
  return word;
}

template <class T>
inline T from_word(std::uint64_t word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}

/// The combination of the words of `count` threads (up to 1024) of a block or a warp.
template <class Op, class T>
inline std::uint64_t combine_words(const std::uint64_t* words, int count) {
  T warps[32];
  for (int warp = 0; warp * 32 < count; ++warp) {
    const int lanes = minimum(32, count - warp * 32);
    T values[32];
    for (int lane = 0; lane < lanes; ++lane) values[lane] = from_word<T>(words[warp * 32 + lane]);
    combine_tree<Op>(values, lanes);
    warps[warp] = values[0];
  }
  combine_tree<Op>(warps, ceil_div(count, 32));
  return to_word(warps[0]);
}

template <class Op, class T>
inline T warp_reduce(T value, SourceLocation location) {
  return from_word<T>(simt::combine_warp(to_word(value), combine_words<Op, T>, location));
}

template <class Op, class T>
inline T block_reduce(T value, SourceLocation location) {
  if (block_threads() == 1) return value;
  return from_word<T>(simt::combine_block(to_word(value), combine_words<Op, T>, location));
}

#endif

/// Sum and maximum of `value` (float, double or an integer) over the warp.
template <class T>
__device__ inline T warp_sum(T value, SourceLocation location = SourceLocation::here()) {
  return warp_reduce<Sum>(value, location);
}
template <class T>
__device__ inline T warp_max(T value, SourceLocation location = SourceLocation::here()) {
  return warp_reduce<Max>(value, location);
}

/// Sum and maximum of `value` over the block.
template <class T>
__device__ inline T block_sum(T value, SourceLocation location = SourceLocation::here()) {
  return block_reduce<Sum>(value, location);
}
template <class T>
__device__ inline T block_max(T value, SourceLocation location = SourceLocation::here()) {
  return block_reduce<Max>(value, location);
}

static __device__ inline bool& last_block_flag() {
  __shared__ bool last;
  return last;
}

/// True in every thread of the last of `blocks` blocks to call this with the same counter, false elsewhere.
/// That block can read all writes that the other blocks made before their call. `counter` starts at 0 and is
/// 0 again afterwards.
__device__ inline bool last_block_done(unsigned* counter, unsigned blocks) {
  __threadfence();
  __syncthreads();  // between blocks: all threads write before the block is counted
  bool& last = last_block_flag();
  if (thread_rank() == 0) {
    last = atomicAdd(counter, 1u) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

/// The same for all blocks of the grid.
__device__ inline bool last_block_done(unsigned* counter) {
  return last_block_done(counter, gridDim.x * gridDim.y * gridDim.z);
}

}  // namespace ringtape::RINGTAPE_TARGET
