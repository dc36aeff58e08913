#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/tensor_core.h"

/// Products of 16-bit tiles in shared memory by the tensor cores, for the matrix products of the library and
/// of its ladder.
namespace ringtape::RINGTAPE_TARGET {

/// The tile of one operand: Outer rows of A or columns of B, Depth elements of k for each. In memory it is
/// [Outer][Depth] (k contiguous) or [Depth][Outer], as the operand is, in pieces of 16 bytes.
///
/// ldmatrix reads eight rows of 16 bytes at a time. So that they are in different banks, the pieces of a row
/// change places from row to row (a swizzle): in rows of 128 bytes or more with every row, in rows of 64
/// bytes, of which two fill the 32 banks, with every second row.
template <bool kKContiguous, int Outer, int Depth>
struct MmaTile {
  static constexpr bool k_contiguous = kKContiguous;
  static constexpr int outer = Outer, depth = Depth;
  static constexpr int width = 8;  // elements of a piece
  static constexpr int elements = Outer * Depth;

  /// The place of the eight elements from (outer, k) on, with `outer` or k a multiple of eight.
  __device__ static int place(int outer, int k) {
    if constexpr (kKContiguous) return piece(outer, k);
    return piece(k, outer);
  }

 private:
  static constexpr int kRow = kKContiguous ? Depth : Outer;
  static constexpr int kPieces = minimum(kRow / width, 8);  // pieces that change places
  static_assert(kPieces >= 4 && kRow % 32 == 0);
  __device__ static int piece(int row, int column) {
    return row * kRow + (column / width ^ row / (8 / kPieces) % kPieces) * width;
  }
};

/// The sums of a warp's 64 x 64 elements of C, in 4 x 8 products of 16 x 8, and what it multiplies next.
struct WarpProducts {
  static constexpr int rows = 4, columns = 8;
  float sums[rows][columns][4] = {};

  /// Sixteen k of the warp's rows of A and columns of B.
  struct Operands {
    unsigned a[rows][4];
    unsigned b[columns / 2][4];  // each for two products
  };

  /// Adds the products of T, bfloat16 or float16.
  template <class T>
  __device__ __forceinline__ void multiply(const Operands& from) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const unsigned* b = from.b[c / 2] + c % 2 * 2;
        multiply_matrices<T>(sums[r][c], from.a[r], {b[0], b[1]});
      }
    }
  }
};

/// Loads 16 x 16 elements from (outer, k) on as four quarters of 8 x 8, of which each lane gets two
/// neighbours in k. With `outer_first` quarter 1 is the next one along `outer`, and quarter 2 along k, as mma
/// takes A; otherwise the other way round, as it takes B.
template <class Tile, class T>
__device__ __forceinline__ void load_quarters(const T* tile, int outer, int k, bool outer_first,
                                              unsigned (&registers)[4]) {
  const int quarter = threadIdx.x % 32 / 8, row = threadIdx.x % 8;  // this lane gives this row's address
  outer += (outer_first ? quarter % 2 : quarter / 2) * 8;
  k += (outer_first ? quarter / 2 : quarter % 2) * 8;
  const T* from = tile + (Tile::k_contiguous ? Tile::place(outer + row, k) : Tile::place(outer, k + row));
  load_matrices<!Tile::k_contiguous>(from, registers);
}

/// Loads the operands of the warp's next products: sixteen k, from `k` on.
template <class ATile, class BTile, class T>
__device__ __forceinline__ void load_operands(const T* a_tile, const T* b_tile, int row, int column, int k,
                                              WarpProducts::Operands& to) {
#pragma unroll
  for (int r = 0; r < WarpProducts::rows; ++r) {
    load_quarters<ATile>(a_tile, row + 16 * r, k, true, to.a[r]);
  }
#pragma unroll
  for (int c = 0; c < WarpProducts::columns / 2; ++c) {
    load_quarters<BTile>(b_tile, column + 16 * c, k, false, to.b[c]);
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
