#include "kernels/common/kernel.h"
//
#include "kernels/ladders/gemm/gemm.h"

/// Rung 5: 8 x 8 elements of C for each thread.
///
/// For each k a thread reads eight floats of A and eight of B into registers and makes 64 products of them:
/// a quarter of a read for each multiply-add. The tile of C is 128 x 128, so global memory is read half as
/// often as on rung 4.
///
/// A thread's columns are neighbours, so the lanes read floats of B that are 8 apart: 16 of them in 4 banks.
/// Of A they read two floats, 8 rows of 8 floats apart, in one bank: mostly 2 cycles instead of 1.
/// They write C in the same way, 32 sectors at a time.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 128;  // rows and columns of C
constexpr int kDepth = 8;   // of a step along k
constexpr int kSide = 8;    // of a thread's part
constexpr int kThreads = kTile * kTile / (kSide * kSide);
constexpr int kCopies = kTile * kDepth / kThreads;  // elements of each tile that a thread copies

__global__ void __launch_bounds__(kThreads, 2) tile_2d(GemmProblem p) {
  __shared__ float a_tile[kTile][kDepth];
  __shared__ float b_tile[kDepth][kTile];
  const int rank = threadIdx.x;
  const int first_column = rank % (kTile / kSide) * kSide, first_row = rank / (kTile / kSide) * kSide;
  const int block_row = blockIdx.y * kTile, block_column = blockIdx.x * kTile;
  const float* a = static_cast<const float*>(p.a) + block_row * p.k;
  const float* b = static_cast<const float*>(p.b) + block_column;

  float sums[kSide][kSide] = {};
  for (int first = 0; first < p.k; first += kDepth) {
#pragma unroll
    for (int copy = 0; copy < kCopies; ++copy) {
      const int i = rank + copy * kThreads;
      a_tile[i / kDepth][i % kDepth] = a[i / kDepth * p.k + first + i % kDepth];
      b_tile[i / kTile][i % kTile] = b[(first + i / kTile) * p.n + i % kTile];
    }
    __syncthreads();
#pragma unroll 2  // more at a time need more registers than two blocks have
    for (int i = 0; i < kDepth; ++i) {
      float a_values[kSide], b_values[kSide];
#pragma unroll
      for (int r = 0; r < kSide; ++r) a_values[r] = a_tile[first_row + r][i];
#pragma unroll
      for (int c = 0; c < kSide; ++c) b_values[c] = b_tile[i][first_column + c];
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
#pragma unroll
        for (int c = 0; c < kSide; ++c) sums[r][c] += a_values[r] * b_values[c];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    float* to = p.c + (block_row + first_row + r) * p.n + block_column + first_column;
#pragma unroll
    for (int c = 0; c < kSide; ++c) to[c] = sums[r][c];
  }
}

}  // namespace

void gemm_tile_2d(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / kTile, p.m / kTile);
  launch(tile_2d, {blocks, kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
