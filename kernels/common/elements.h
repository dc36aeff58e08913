#pragma once

#include <cstdint>
#include <type_traits>

#include "core/ceil_div.h"
#include "core/target.h"
#include "kernels/common/accumulate.h"
#include "kernels/common/launch.h"
#include "kernels/common/vec.h"

/// Which elements a thread owns. On the GPU neighbouring threads own neighbouring 16-byte vectors, so that a
/// warp reads whole cache lines; on the CPU a thread owns one contiguous range, a loop that the compiler
/// vectorises.
namespace ringtape::RINGTAPE_TARGET {

/// Number of this thread in its block, x running fastest, and the number of threads of the block.
__device__ inline int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
__device__ inline int block_threads() {
  return static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
}

/// The number of running values (sums, maxima) in a body of for_each_vec: one for each slot.
inline constexpr int kSlots = kGpuGeometry ? 8 : 64;

/// The larger of two element types. A conversion visits its elements in vectors of the larger type: with 16
/// bytes of it for each thread, neither the reads nor the writes of a warp leave gaps.
template <class A, class B>
using Wider = std::conditional_t<(sizeof(A) >= sizeof(B)), A, B>;

/// The shape for a kernel whose threads share n elements through for_each_vec<T>.
template <class T = float>
inline LaunchShape elementwise_shape(std::int64_t n) {
  if constexpr (kGpuGeometry) {
    constexpr unsigned kThreads = 256;
    return {static_cast<unsigned>(ceil_div(n, kThreads * kVecLanes<T>)), kThreads};
  } else {
    constexpr std::int64_t kThreads = 2, kElementsPerThread = 8192;
    const std::int64_t threads = ceil_div(n, kElementsPerThread);
    return {static_cast<unsigned>(ceil_div(threads, kThreads)),
            static_cast<unsigned>(minimum(maximum<std::int64_t>(threads, 1), kThreads))};
  }
}

/// The most blocks of a reduction_shape: the length of a buffer with one partial result per block.
inline constexpr int kMaxReductionBlocks = 1024;

/// The shape for a kernel that reduces n elements to one value per block. The shape and the order of the
/// additions depend only on n.
template <class T = float>
inline LaunchShape reduction_shape(std::int64_t n) {
  LaunchShape shape = elementwise_shape<T>(n);
  shape.grid.x = minimum<unsigned>(shape.grid.x, kMaxReductionBlocks);
  return shape;
}

/// The elements of a long row that one block takes, if a grid's y direction divides the row: `least`, or more
/// where there would be more than the 65,535 blocks that are allowed in y.
inline std::int64_t stretch_of(std::int64_t length, std::int64_t least) {
  constexpr std::int64_t kMaxBlocks = 65535;
  return least * maximum<std::int64_t>(1, ceil_div(length, least * kMaxBlocks));
}

/// The most threads in a block of row_shape.
inline constexpr int kMaxRowThreads = kGpuGeometry ? 512 : 4;

/// The shape for a kernel in which each block handles one row, through for_each_vec_in_block<T>. On the GPU a
/// thread has up to `vectors_of_thread` vectors of the row, more only in a block of kMaxRowThreads.
template <class T = float>
inline LaunchShape row_shape(std::int64_t rows, std::int64_t columns, int vectors_of_thread = 1) {
  const std::int64_t wanted =
      kGpuGeometry ? ceil_div(columns, std::int64_t{32} * vectors_of_thread * kVecLanes<T>) * 32
                   : ceil_div(columns, 4096);
  const std::int64_t least = kGpuGeometry ? 32 : 1;
  return {grid_size(rows),
          static_cast<unsigned>(minimum<std::int64_t>(maximum(wanted, least), kMaxRowThreads))};
}

/// Converts to the accumulation type. The GPU converts bf16 in pairs, with one instruction per element.
template <class T, int W>
RINGTAPE_HOST_DEVICE inline Vec<accumulate_t<T>, W> to_accumulate(const Vec<T, W>& elements) {
  Vec<accumulate_t<T>, W> values;
  if constexpr (kGpuGeometry && std::is_same_v<T, bfloat16> && W % 2 == 0) {
    std::uint32_t pairs[W / 2];
    __builtin_memcpy(pairs, &elements, sizeof(pairs));
#pragma unroll
    for (int i = 0; i < W / 2; ++i) {
      values[2 * i] = float_from_bits(pairs[i] << 16);
      values[2 * i + 1] = float_from_bits(pairs[i] & 0xffff0000u);
    }
  } else {
    for (int k = 0; k < W; ++k) values[k] = to_accumulate(elements[k]);
  }
  return values;
}

/// Calls body(i, lanes) or body(i, lanes, slot). See for_each_vec.
template <class Body, class LaneCount>
__device__ inline void visit(const Body& body, std::int64_t i, LaneCount lanes, int slot) {
  if constexpr (std::is_invocable_v<const Body&, std::int64_t, LaneCount, int>) {
    body(i, lanes, slot);
  } else {
    body(i, lanes);
  }
}

/// Visits the elements, out of n, of worker `rank` of `workers`. On the GPU a 32-bit index type I takes half
/// the registers and instructions of a 64-bit type.
template <class T, class I, class Body>
__device__ inline void for_each_vec_of(I n, I rank, I workers, const Body& body) {
  if constexpr (kGpuGeometry) {
    constexpr int kWidth = kVecLanes<T>;
    const I vectors = n / kWidth;
    I v = rank;
    if constexpr (std::is_invocable_v<const Body&, std::int64_t, Lanes<1>, int>) {
      // A body that adds up writes little, so the loads of several calls can be in flight together.
      constexpr int kCalls = 4;
      for (; v + (kCalls - 1) * workers < vectors; v += kCalls * workers) {
#pragma unroll
        for (int call = 0; call < kCalls; ++call) {
          visit(body, (v + call * workers) * kWidth, Lanes<kWidth>{}, 0);
        }
      }
    }
    // nvcc would unroll these loops too, and divide in every thread to count the rounds; most threads have
    // one.
#pragma unroll 1
    for (; v < vectors; v += workers) visit(body, v * kWidth, Lanes<kWidth>{}, 0);
    if constexpr (kWidth > 1) {
#pragma unroll 1
      for (I i = vectors * kWidth + rank; i < n; i += workers) visit(body, i, Lanes<1>{}, 0);
    }
  } else {
    const std::int64_t share = round_up(ceil_div<std::int64_t>(n, workers), kSlots);
    const std::int64_t begin = minimum<std::int64_t>(n, rank * share);
    const std::int64_t end = minimum<std::int64_t>(n, begin + share);
    if constexpr (std::is_invocable_v<const Body&, std::int64_t, Lanes<1>, int>) {
      std::int64_t i = begin;
      for (; i + kSlots <= end; i += kSlots) {
#pragma GCC ivdep
        for (int slot = 0; slot < kSlots; ++slot) visit(body, i + slot, Lanes<1>{}, slot);
      }
      for (int slot = 0; i + slot < end; ++slot) visit(body, i + slot, Lanes<1>{}, slot);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) visit(body, i, Lanes<1>{}, 0);
    }
  }
}

/// Calls body(i, lanes) for the elements i to i + lanes - 1, until every one of 0 to n - 1 has been visited
/// by exactly one thread of the grid (one-dimensional grid and block). `lanes` is known at compile time: 16
/// bytes' worth of T, or 1 at the end, and always 1 where the CPU's compiler vectorises.
///
/// No call may touch what another call writes. A body that adds up takes a third argument, `slot`, and keeps
/// kSlots running values: lane k belongs to slot + k, so that additions need not wait for one another (see
/// LaneSum).
template <class T, class Body>
__device__ inline void for_each_vec(std::int64_t n, const Body& body) {
  const std::int64_t rank = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for_each_vec_of<T, std::int64_t>(n, rank, std::int64_t{gridDim.x} * blockDim.x, body);
}

/// for_each_vec over the threads of one block, for n elements of this block only; I has 32 or 64 bits.
template <class T, class I, class Body>
__device__ inline void for_each_vec_in_block(I n, const Body& body) {
  for_each_vec_of<T, I>(n, thread_rank(), block_threads(), body);
}

/// A reduction with kSlots running values that start at 0, for the bodies of for_each_vec:
///
///   LaneSum<float> sum;
///   for_each_vec<float>(n, [&](std::int64_t i, auto lanes, int slot) {
///     const auto v = load_vec<lanes>(x + i);
///     for (int k = 0; k < lanes; ++k) sum.add(slot + k, v[k]);
///   });
///   const float total = block_sum(sum.total());
template <class Op, class A>
class LaneReduction {
 public:
  __device__ void add(int slot, A value) { values_[slot] = Op::combine(values_[slot], value); }
  /// The combination of the slots, in a fixed order.
  __device__ A total() const {
    A folded[kSlots];
    for (int i = 0; i < kSlots; ++i) folded[i] = values_[i];
    for (int half = kSlots / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) folded[i] = Op::combine(folded[i], folded[i + half]);
    }
    return folded[0];
  }

 private:
  A values_[kSlots] = {};
};

template <class A>
using LaneSum = LaneReduction<Sum, A>;

}  // namespace ringtape::RINGTAPE_TARGET
