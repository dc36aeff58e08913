#include "kernels/common/kernel.h"
//
#include "kernels/ladders/transpose/transpose.h"

/// Rung 5: a swizzle in place of padding.
///
/// The tile's rows are cut into pieces of 16 bytes, and in row r piece c is kept at place c ^ (r / 4 % 8).
/// Eight lanes that write to rows 4 apart, all to piece c, then write to eight different places; eight lanes
/// that read eight neighbouring pieces of one row read eight different places too. Both access all 32 banks
/// once. No memory is lost to padding.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 64;
constexpr int kThreads = kTile / 4;  // in each direction

/// The place of the four floats from `column` on in row `row` of the tile.
__device__ inline int place(int row, int column) {
  return row * kTile + (column / 4 ^ row / 4 % 8) * 4;
}

__global__ void swizzled(TransposeProblem p) {
  alignas(16) __shared__ float values[kTile * kTile];  // of the transpose
  const int x = 4 * threadIdx.x, y = 4 * threadIdx.y;
  const int first_column = blockIdx.x * kTile, first_row = blockIdx.y * kTile;

  Vec<float, 4> rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    rows[i] = load_vec<4>(p.in + (first_row + y + i) * p.columns + first_column + x);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Vec<float, 4> column{{rows[0][i], rows[1][i], rows[2][i], rows[3][i]}};
    store_vec(values + place(x + i, y), column);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto row = load_vec<4>(values + place(y + i, x));
    store_vec(p.out + (first_column + y + i) * p.rows + first_row + x, row);
  }
}

}  // namespace

void transpose_swizzled(const Stream& stream, const TransposeProblem& p) {
  const dim3 blocks(p.columns / kTile, p.rows / kTile);
  launch(swizzled, {blocks, {kThreads, kThreads}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
