#include "kernels/common/kernel.h"
//
#include "kernels/ladders/gemm/gemm.h"

/// Rung 6: 16 bytes an instruction, except where the tile of A is stored.
///
/// Copying the tiles and reading them takes a quarter of the instructions. For A that requires a transpose:
/// its tile is stored with k first, so that the eight rows of a thread are contiguous. The thread's rows and
/// columns come in two chunks of four, half a tile apart: eight lanes then read 128 neighbouring bytes of B,
/// and the bank conflicts of rung 5 are gone. The transposing store has new conflicts, but few: one store for
/// eight reads.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 128;  // rows and columns of C
constexpr int kDepth = 8;   // of a step along k
constexpr int kSide = 8;    // of a thread's part
constexpr int kThreads = kTile * kTile / (kSide * kSide);

/// The thread's eight elements of a row of a tile: four from `first` on, four half a tile further on.
__device__ __forceinline__ void load_two_chunks(const float* row, int first, float (&values)[kSide]) {
#pragma unroll
  for (int chunk = 0; chunk < 2; ++chunk) {
    const auto four = load_vec<4>(row + chunk * kTile / 2 + first);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[chunk * 4 + i] = four[i];
  }
}

__global__ void __launch_bounds__(kThreads, 2) vectorised(GemmProblem p) {
  alignas(16) __shared__ float a_tile[kDepth][kTile];  // [k][row]
  alignas(16) __shared__ float b_tile[kDepth][kTile];  // [k][column]
  const int rank = threadIdx.x;
  const int x = rank % 16 * 4, y = rank / 16 * 4;
  const int block_row = blockIdx.y * kTile, block_column = blockIdx.x * kTile;
  const int a_row = rank / 2, a_k = rank % 2 * 4;
  const int b_k = rank / 32, b_column = rank % 32 * 4;
  const float* a = static_cast<const float*>(p.a) + (block_row + a_row) * p.k + a_k;
  const float* b = static_cast<const float*>(p.b) + b_k * p.n + block_column + b_column;

  float sums[kSide][kSide] = {};
  for (int first = 0; first < p.k; first += kDepth) {
    const auto a_values_of_row = load_vec<4>(a + first);
#pragma unroll
    for (int i = 0; i < 4; ++i) a_tile[a_k + i][a_row] = a_values_of_row[i];
    store_vec(&b_tile[b_k][b_column], load_vec<4>(b + first * p.n));
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      float a_values[kSide], b_values[kSide];
      load_two_chunks(a_tile[i], y, a_values);
      load_two_chunks(b_tile[i], x, b_values);
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
    float* to = p.c + (block_row + r / 4 * kTile / 2 + y + r % 4) * p.n + block_column + x;
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
      const float* four = sums[r] + chunk * 4;
      store_vec(to + chunk * kTile / 2, Vec<float, 4>{{four[0], four[1], four[2], four[3]}});
    }
  }
}

}  // namespace

void gemm_vectorised(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / kTile, p.m / kTile);
  launch(vectorised, {blocks, kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
