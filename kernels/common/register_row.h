#pragma once

#include "kernels/common/kernel.h"

/// Parts of a thread's share of a matrix product, in registers.
namespace ringtape::RINGTAPE_TARGET {

/// Neighbouring values that are read and multiplied together: 16 bytes on the GPU, a vector register on the
/// CPU. (GCC keeps an array of these in registers, but not a struct with an array member.)
#if defined(__CUDACC__)
template <class A, int W>
struct alignas(sizeof(A) * W) Row {
  A lane[W];
  __device__ A& operator[](int i) { return lane[i]; }
  __device__ const A& operator[](int i) const { return lane[i]; }
};
template <class A, int W>
__device__ void multiply_add(Row<A, W>& sum, A a, const Row<A, W>& b) {
#pragma unroll
  for (int i = 0; i < W; ++i) sum[i] += a * b[i];
}
#else
template <class A, int W>
struct VectorRegister {
  typedef A type __attribute__((vector_size(sizeof(A) * W)));
};
template <class A, int W>
using Row = typename VectorRegister<A, W>::type;
template <class A, class R>
void multiply_add(R& sum, A a, const R& b) {
  sum += a * b;
}
#endif

#if defined(__AVX512F__)
inline constexpr int kCpuRegisterBytes = 64;
#elif defined(__AVX__)
inline constexpr int kCpuRegisterBytes = 32;
#else
inline constexpr int kCpuRegisterBytes = 16;
#endif
inline constexpr int kRowBytes = kGpuGeometry ? 16 : kCpuRegisterBytes;

/// Values in a Row of this width.
template <class A>
inline constexpr int kLanes = kRowBytes / static_cast<int>(sizeof(A));

/// Reads W values from an address that is a multiple of their total size. Several products may use the
/// result: without the asm, GCC reads the values from memory again for each product, and the loads take
/// longer than the products.
template <int W, class A>
__device__ __forceinline__ Row<A, W> read_row(const A* from) {
  Row<A, W> row = *reinterpret_cast<const Row<A, W>*>(from);
#if defined(__AVX512F__) && !defined(__CUDACC__)
  if constexpr (sizeof(row) == kCpuRegisterBytes) asm("" : "+v"(row));
#endif
  return row;
}

}  // namespace ringtape::RINGTAPE_TARGET
