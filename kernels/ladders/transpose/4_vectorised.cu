#include "kernels/common/kernel.h"
//
#include "kernels/ladders/transpose/transpose.h"

/// Rung 4: 16 bytes an instruction.
///
/// A thread takes 4 x 4 elements: it reads four rows of 16 bytes, transposes them in its registers, and
/// writes four rows of 16 bytes to the tile. A quarter of the instructions move the same bytes, so a thread
/// has four times as many bytes in flight.
///
/// The tile's rows must begin at a multiple of 16 bytes, so they are padded by 4 floats. That is not enough:
/// neighbouring lanes write to rows 4 apart, which are 16 banks apart, so eight lanes share two groups of
/// four banks: a 4-way bank conflict.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 64;
constexpr int kStride = kTile + 4;
constexpr int kThreads = kTile / 4;  // in each direction

__global__ void vectorised(TransposeProblem p) {
  alignas(16) __shared__ float values[kTile * kStride];  // of the transpose
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
    store_vec(values + (x + i) * kStride + y, column);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto row = load_vec<4>(values + (y + i) * kStride + x);
    store_vec(p.out + (first_column + y + i) * p.rows + first_row + x, row);
  }
}

}  // namespace

void transpose_vectorised(const Stream& stream, const TransposeProblem& p) {
  const dim3 blocks(p.columns / kTile, p.rows / kTile);
  launch(vectorised, {blocks, {kThreads, kThreads}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
