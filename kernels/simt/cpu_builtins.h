#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>

#include "core/target.h"
#include "kernels/simt/executor.h"

/// The CUDA built-ins, for kernels that the host compiler compiles and the SIMT executor runs.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

// A block runs on one OS thread, so its threads share thread-local storage, and blocks that run at the same
// time do not. Check builds and the analysis run one block at a time, whichever thread launches it, and keep
// shared memory in its own section: check builds overwrite it before each block, and AddressSanitizer watches
// it; the analysis recognises shared addresses by it.
#if defined(RINGTAPE_CHECK) || defined(RINGTAPE_ANALYSIS)
#define __shared__ static __attribute__((section("simt_shared")))
#else
#define __shared__ static thread_local
#endif

#if defined(RINGTAPE_ON_MODEL)
#include <cuda_runtime.h>
#endif

namespace ringtape::RINGTAPE_TARGET {

#if defined(RINGTAPE_ON_MODEL)
inline constexpr bool kIsCpu = false;
#else
inline constexpr bool kIsCpu = true;
#endif
#if defined(RINGTAPE_CHECK) || defined(RINGTAPE_ANALYSIS) || defined(RINGTAPE_ON_MODEL)
inline constexpr bool kGpuGeometry = true;
#else
inline constexpr bool kGpuGeometry = false;
#endif

using simt::dim3;
using simt::uint3;

// The executor sets these before a thread of a block starts or continues.
using simt::blockDim;
using simt::blockIdx;
using simt::gridDim;
using simt::threadIdx;
inline constexpr int warpSize = 32;

/// The block's dynamic shared memory, LaunchShape::shared_bytes long.
template <class T>
inline T* dynamic_shared() {
  return static_cast<T*>(simt::dynamic_shared_bytes());
}

// A default argument is evaluated where the function is called, so an error about a barrier names the
// kernel's line.
using simt::SourceLocation;

inline void __syncthreads(SourceLocation location = SourceLocation::here()) {
  simt::sync_block(location);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, SourceLocation location = SourceLocation::here()) {
  simt::sync_warp(mask, location);
}

/// The `value` of lane `source` (0 to 31) of this warp.
template <class T>
inline T shuffle(unsigned mask, T value, int source, SourceLocation location) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  __builtin_memcpy(&word, &value, sizeof value);
  word = simt::shuffle_word(mask, word, source, location);
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}

/// A lane's number, and the first lane of its group of `width` lanes.
inline int lane_index() {
  return simt::thread_rank() % warpSize;
}
inline int group_start(int width) {
  return lane_index() / width * width;
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32,
                     SourceLocation location = SourceLocation::here()) {
  return shuffle(mask, value, group_start(width) + (source & (width - 1)), location);
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                        SourceLocation location = SourceLocation::here()) {
  const int source = lane_index() - static_cast<int>(delta);
  return shuffle(mask, value, source < group_start(width) ? lane_index() : source, location);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          SourceLocation location = SourceLocation::here()) {
  const int source = lane_index() + static_cast<int>(delta);
  return shuffle(mask, value, source >= group_start(width) + width ? lane_index() : source, location);
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                         SourceLocation location = SourceLocation::here()) {
  const int source = lane_index() ^ lane_mask;
  return shuffle(mask, value, source >= group_start(width) + width ? lane_index() : source, location);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              SourceLocation location = SourceLocation::here()) {
  return simt::ballot(mask, predicate != 0, location);
}

inline int __any_sync(unsigned mask, int predicate, SourceLocation location = SourceLocation::here()) {
  return simt::ballot(mask, predicate != 0, location) != 0;
}

inline int __all_sync(unsigned mask, int predicate, SourceLocation location = SourceLocation::here()) {
  return simt::ballot(mask, predicate == 0, location) == 0;
}

inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}

// Integers only: a float sum by atomics would depend on the order in which blocks run.
inline int atomicAdd(int* address, int value) {
  return __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);
}

inline int atomicExch(int* address, int value) {
  return __atomic_exchange_n(address, value, __ATOMIC_ACQ_REL);
}

/// Orders this thread's writes before its later atomics, for threads of other blocks. The atomics above order
/// memory already, so only the compiler must be kept from moving accesses.
inline void __threadfence() {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

}  // namespace ringtape::RINGTAPE_TARGET
