#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/ladders/gemm/gemm.h"

/// Rung 8: a tile for each warp, and 8 x 16 elements for each thread.
///
/// Each warp of a block has a square of 64 x 64, where on rung 7 a warp had two strips of 8 rows across all
/// columns: it reads less of B for each product. And a thread's part is twice as large: 24 floats read for
/// 128 multiply-adds, in place of 16 for 64. There are half as many threads, each with twice the registers:
/// the GPU has fewer warps to hide latency, but more independent work in each thread.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 128;  // rows and columns of C
constexpr int kDepth = 16;  // of a step along k
constexpr int kWarpTile = 64;
constexpr int kRows = 8, kColumns = 16;  // of a thread's part
constexpr int kThreads = kTile * kTile / (kRows * kColumns);
constexpr int kPieces = kTile * kDepth / 4;  // of 16 bytes, in each tile

struct Tiles {
  alignas(16) float a[kTile][kDepth];
  alignas(16) float b[kDepth][kTile];
};

/// The first row and column of the thread's part in the block's tile. The lanes of a warp are arranged in 8
/// rows of 4; a lane's rows are 8 apart, its columns come in four chunks of 4, which are 16 apart.
struct Part {
  int row, column;
};
__device__ __forceinline__ Part part_of_thread() {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  return {warp / 2 * kWarpTile + lane / 4, warp % 2 * kWarpTile + lane % 4 * 4};
}

__device__ __forceinline__ void begin_copies(const GemmProblem& p, int first_k, Tiles& to,
                                             AsyncCopies& copies) {
  const float* a = static_cast<const float*>(p.a) + blockIdx.y * kTile * p.k + first_k;
  const float* b = static_cast<const float*>(p.b) + first_k * p.n + blockIdx.x * kTile;
#pragma unroll
  for (int i = threadIdx.x; i < kPieces; i += kThreads) {
    const int a_row = i / (kDepth / 4), a_k = i % (kDepth / 4) * 4;
    const int b_k = i / (kTile / 4), b_column = i % (kTile / 4) * 4;
    copies.copy(&to.a[a_row][a_k], a + a_row * p.k + a_k);
    copies.copy(&to.b[b_k][b_column], b + b_k * p.n + b_column);
  }
  copies.commit();
}

/// sums += the products of four k, from `k` on.
__device__ __forceinline__ void multiply_four(const Tiles& tiles, int k, Part part,
                                              float (&sums)[kRows][kColumns]) {
  Vec<float, 4> a_values[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) a_values[r] = load_vec<4>(&tiles.a[part.row + 8 * r][k]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Vec<float, 4> b_values[kColumns / 4];
#pragma unroll
    for (int chunk = 0; chunk < kColumns / 4; ++chunk) {
      b_values[chunk] = load_vec<4>(&tiles.b[k + i][part.column + 16 * chunk]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[r][c] += a_values[r][i] * b_values[c / 4][c % 4];
    }
  }
}

__global__ void __launch_bounds__(kThreads) warp_tile(GemmProblem p) {
  __shared__ Tiles tiles[2];
  const Part part = part_of_thread();
  float sums[kRows][kColumns] = {};
  AsyncCopies copies;
  begin_copies(p, 0, tiles[0], copies);
  for (int step = 0; step * kDepth < p.k; ++step) {
    copies.wait<0>();
    __syncthreads();
    if ((step + 1) * kDepth < p.k) begin_copies(p, (step + 1) * kDepth, tiles[(step + 1) % 2], copies);
#pragma unroll 1  // more would take registers that the sums need
    for (int k = 0; k < kDepth; k += 4) multiply_four(tiles[step % 2], k, part, sums);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float* to = p.c + (blockIdx.y * kTile + part.row + 8 * r) * p.n + blockIdx.x * kTile + part.column;
#pragma unroll
    for (int chunk = 0; chunk < kColumns / 4; ++chunk) {
      const float* four = sums[r] + chunk * 4;
      store_vec(to + 16 * chunk, Vec<float, 4>{{four[0], four[1], four[2], four[3]}});
    }
  }
}

}  // namespace

void gemm_warp_tile(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / kTile, p.m / kTile);
  launch(warp_tile, {blocks, kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
