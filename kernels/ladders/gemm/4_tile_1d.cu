#include "kernels/common/kernel.h"
//
#include "kernels/ladders/gemm/gemm.h"

/// Rung 4: eight rows of C for each thread.
///
/// A multiply-add of rung 3 needs two floats from shared memory, and these reads limit it. A thread with
/// eight elements of a column reads one float of B and uses it eight times: nine reads for eight
/// multiply-adds instead of sixteen. The block's tile of C is larger, too, so that each float of global
/// memory serves 64 rows or columns instead of 32.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 64;  // rows and columns of C
constexpr int kDepth = 8;  // of a step along k
constexpr int kRows = 8;   // of a thread

__global__ void tile_1d(GemmProblem p) {
  __shared__ float a_tile[kTile][kDepth];
  __shared__ float b_tile[kDepth][kTile];
  const int rank = threadIdx.x;
  const int column = rank % kTile, first_row = rank / kTile * kRows;
  const int block_row = blockIdx.y * kTile, block_column = blockIdx.x * kTile;
  // The thread copies one element of each tile.
  const int a_row = rank / kDepth, a_column = rank % kDepth;
  const int b_row = rank / kTile, b_column = rank % kTile;
  const float* a = static_cast<const float*>(p.a) + (block_row + a_row) * p.k + a_column;
  const float* b = static_cast<const float*>(p.b) + b_row * p.n + block_column + b_column;

  float sums[kRows] = {};
  for (int first = 0; first < p.k; first += kDepth) {
    a_tile[a_row][a_column] = a[first];
    b_tile[b_row][b_column] = b[first * p.n];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const float b_value = b_tile[i][column];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] += a_tile[first_row + r][i] * b_value;
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) p.c[(block_row + first_row + r) * p.n + block_column + column] = sums[r];
}

}  // namespace

void gemm_tile_1d(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / kTile, p.m / kTile);
  launch(tile_1d, {blocks, kTile * kTile / kRows}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
