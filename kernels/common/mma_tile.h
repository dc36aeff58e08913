#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/tensor_core.h"

/// Products of 16-bit tiles in shared memory on the tensor cores, for the matrix products of the library and
/// of the GEMM ladder.
namespace ringtape::RINGTAPE_TARGET {

/// The tile of one operand: Outer rows of A or columns of B, with Depth elements along k each. Like the
/// operand it is [Outer][Depth] in memory (k contiguous) or [Depth][Outer], in pieces of 16 bytes.
///
/// ldmatrix reads eight rows of 16 bytes at a time. So that they are in different banks, the pieces of a row
/// are permuted (a swizzle): in another order for each row of 128 bytes or more; for every second row of 64
/// bytes, because two of these fill the 32 banks.
template <bool kKContiguous, int Outer, int Depth>
struct MmaTile {
  static constexpr bool k_contiguous = kKContiguous;
  static constexpr int outer = Outer, depth = Depth;
  static constexpr int width = 8;  // elements of a piece
  static constexpr int elements = Outer * Depth;

  /// The index of the eight elements from (outer, k) on, with `outer` or k a multiple of eight.
  __device__ static int place(int outer, int k) {
    if constexpr (kKContiguous) return piece(outer, k);
    return piece(k, outer);
  }

 private:
  static constexpr int kRow = kKContiguous ? Depth : Outer;
  static constexpr int kPieces = minimum(kRow / width, 8);  // pieces that are permuted
  static_assert(kPieces >= 4 && kRow % 32 == 0);
  __device__ static int piece(int row, int column) {
    return row * kRow + (column / width ^ row / (8 / kPieces) % kPieces) * width;
  }
};

/// The sums of a warp's 64 x 64 elements of C, from 4 x 8 products of 16 x 8 each.
struct WarpProducts {
  static constexpr int rows = 4, columns = 8;
  float sums[rows][columns][4] = {};

  /// The warp's rows of A and columns of B, for sixteen k.
  struct Operands {
    unsigned a[rows][4];
    unsigned b[columns / 2][4];  // each for two products
  };

  /// Adds the products of operands of T, bfloat16 or float16.
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

/// Loads 16 x 16 elements from (outer, k) on as four quarters of 8 x 8; of each a lane gets two neighbours in
/// k. With `outer_first` quarter 1 is the next one along `outer` and quarter 2 the next along k, as mma takes
/// A; otherwise the reverse, as mma takes B.
template <class Tile, class T>
__device__ __forceinline__ void load_quarters(const T* tile, int outer, int k, bool outer_first,
                                              unsigned (&registers)[4]) {
  const int quarter = threadIdx.x % 32 / 8, row = threadIdx.x % 8;  // of the address that this lane gives
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
