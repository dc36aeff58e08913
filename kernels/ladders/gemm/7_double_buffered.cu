#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/ladders/gemm/gemm.h"

/// Rung 7: two buffers, filled by cp.async.
///
/// Until now a block copied, waited, multiplied, waited. Here the copies of the next step go to a second pair
/// of tiles while this step is multiplied. cp.async bypasses the registers, and one barrier a step is enough:
/// a thread that passes it has finished with the tiles that are filled next.
///
/// A step is 16 deep, where it was 8: half as many barriers for the same work.
///
/// A copy cannot transpose, so A's tile has k last again. A thread reads four k of a row at once, with no
/// more instructions and no bank conflicts: the lanes of a phase read one row, or different banks.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 128;  // rows and columns of C
constexpr int kDepth = 16;  // of a step along k
constexpr int kSide = 8;    // of a thread's part
constexpr int kThreads = kTile * kTile / (kSide * kSide);
constexpr int kPieces = kTile * kDepth / 4;  // of 16 bytes, in each tile

struct Tiles {
  alignas(16) float a[kTile][kDepth];
  alignas(16) float b[kDepth][kTile];
};

__device__ __forceinline__ void begin_copies(const GemmProblem& p, int first_k, Tiles& to,
                                             AsyncCopies& copies) {
  const float* a = static_cast<const float*>(p.a) + blockIdx.y * kTile * p.k + first_k;
  const float* b = static_cast<const float*>(p.b) + first_k * p.n + blockIdx.x * kTile;
#pragma unroll 1  // more would take registers that the sums need
  for (int i = threadIdx.x; i < kPieces; i += kThreads) {
    const int a_row = i / (kDepth / 4), a_k = i % (kDepth / 4) * 4;
    const int b_k = i / (kTile / 4), b_column = i % (kTile / 4) * 4;
    copies.copy(&to.a[a_row][a_k], a + a_row * p.k + a_k);
    copies.copy(&to.b[b_k][b_column], b + b_k * p.n + b_column);
  }
  copies.commit();
}

/// sums += the products of four k, from `k` on.
__device__ __forceinline__ void multiply_four(const Tiles& tiles, int k, int x, int y,
                                              float (&sums)[kSide][kSide]) {
  float a_values[kSide][4];
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    const auto four = load_vec<4>(&tiles.a[r / 4 * kTile / 2 + y + r % 4][k]);
#pragma unroll
    for (int i = 0; i < 4; ++i) a_values[r][i] = four[i];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float a_column[kSide], b_values[kSide];
#pragma unroll
    for (int r = 0; r < kSide; ++r) a_column[r] = a_values[r][i];
#pragma unroll
    for (int chunk = 0; chunk < kSide; chunk += 4) {
      const auto four = load_vec<4>(&tiles.b[k + i][chunk / 4 * kTile / 2 + x]);
#pragma unroll
      for (int c = 0; c < 4; ++c) b_values[chunk + c] = four[c];
    }
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
#pragma unroll
      for (int c = 0; c < kSide; ++c) sums[r][c] += a_column[r] * b_values[c];
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2) double_buffered(GemmProblem p) {
  __shared__ Tiles tiles[2];
  const int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
  float sums[kSide][kSide] = {};
  AsyncCopies copies;
  begin_copies(p, 0, tiles[0], copies);
  for (int step = 0; step * kDepth < p.k; ++step) {
    copies.wait<0>();
    __syncthreads();
    if ((step + 1) * kDepth < p.k) begin_copies(p, (step + 1) * kDepth, tiles[(step + 1) % 2], copies);
#pragma unroll 1  // likewise
    for (int k = 0; k < kDepth; k += 4) multiply_four(tiles[step % 2], k, x, y, sums);
  }
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    float* to = p.c + (blockIdx.y * kTile + r / 4 * kTile / 2 + y + r % 4) * p.n + blockIdx.x * kTile + x;
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
      const float* four = sums[r] + chunk * 4;
      store_vec(to + chunk * kTile / 2, Vec<float, 4>{{four[0], four[1], four[2], four[3]}});
    }
  }
}

}  // namespace

void gemm_double_buffered(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / kTile, p.m / kTile);
  launch(double_buffered, {blocks, kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
