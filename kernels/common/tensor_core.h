#pragma once

#include "kernels/common/kernel.h"

#if !defined(__CUDACC__)
#include "kernels/simt/tensor_core.h"
#endif

/// Tensor core instructions (compute capability 8.0 and later): ldmatrix, which loads small matrices from
/// shared memory into the registers of a warp, and mma, which multiplies them. All 32 lanes must call them
/// together. On the CPU kernels/simt/tensor_core.cpp models which lane holds which element. Source of the
/// layouts: NVIDIA's PTX ISA, sections on ldmatrix and on mma.m16n8k16.
namespace ringtape::RINGTAPE_TARGET {

/// Loads four 8 x 8 matrices of 16-bit elements. Lane 8 i + r gives the address of row r of matrix i: 16
/// bytes, aligned to 16. Lane l then holds in registers[i] the elements [l / 4][2 (l % 4)] (low half) and
/// [l / 4][2 (l % 4) + 1] (high half) of matrix i; with kTransposed, of its transpose.
template <bool kTransposed = false>
__device__ __forceinline__ void load_matrices(
    const void* row, unsigned (&registers)[4],
    [[maybe_unused]] SourceLocation location = SourceLocation::here()) {
#if defined(__CUDACC__)
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
  }
#else
  const auto bytes = *static_cast<const volatile unsigned __int128*>(row);  // one access to count
  simt::MatrixRow own;
  __builtin_memcpy(own.words, &bytes, sizeof bytes);
  simt::exchange_matrices(own, kTransposed, registers, location);
#endif
}

/// sums += A B on the tensor cores: A is 16 x 16 and B 16 x 8, both of T (bfloat16 or float16), and sums is
/// 16 x 8 in f32. In 8 x 8 quarters as load_matrices leaves them, `a` holds A's upper left, lower left, upper
/// right and lower right; `b` holds B's upper and lower half, transposed. Of the sums, lane l holds
/// [l / 4][2 (l % 4)] and the next column, then the same columns of row l / 4 + 8.
template <class T = bfloat16>
__device__ __forceinline__ void multiply_matrices(
    float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2],
    [[maybe_unused]] SourceLocation location = SourceLocation::here()) {
#if defined(__CUDACC__)
  if constexpr (std::is_same_v<T, bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  constexpr DType kDType = std::is_same_v<T, bfloat16> ? DType::bf16 : DType::f16;
  simt::multiply_matrices(sums, a, b, kDType, location);
#endif
}

}  // namespace ringtape::RINGTAPE_TARGET
