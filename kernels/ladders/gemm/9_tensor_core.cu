#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/common/tensor_core.h"
#include "kernels/ladders/gemm/gemm.h"

/// Rung 9: tensor cores.
///
/// A and B are bf16: half the bytes everywhere. A warp multiplies 16 x 16 by 16 x 8 with one instruction,
/// 2048 multiply-adds, and loads its operands by ldmatrix, which distributes 512 bytes of shared memory over
/// the lanes. The sums stay f32. A warp's part of C is 64 x 64, as on rung 8: 4 x 8 products for each 16 of
/// k.
///
/// ldmatrix reads eight rows of 16 bytes at a time. So that they are in different banks, the 16-byte pieces
/// of a tile's row change places from row to row (a swizzle, as on the transpose's last rung). B has k first,
/// but mma needs it last: ldmatrix transposes.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 128;  // rows and columns of C
constexpr int kDepth = 32;  // of a step along k
constexpr int kWarpTile = 64;
constexpr int kThreads = 128;
constexpr int kPieces = kTile * kDepth / 8;  // of 16 bytes, in each tile
constexpr int kRowProducts = kWarpTile / 16, kColumnProducts = kWarpTile / 8;

struct Tiles {
  alignas(128) bfloat16 a[kTile][kDepth];
  alignas(128) bfloat16 b[kDepth][kTile];

  /// The place of the eight elements from `k` (from `column`) on. Two rows of A, or half a row of B, fill the
  /// 32 banks.
  __device__ bfloat16* piece_of_a(int row, int k) { return &a[row][(k / 8 ^ row / 2 % 4) * 8]; }
  __device__ bfloat16* piece_of_b(int k, int column) { return &b[k][(column / 8 ^ k % 8) * 8]; }
};

__device__ __forceinline__ void begin_copies(const GemmProblem& p, int first_k, Tiles& to,
                                             AsyncCopies& copies) {
  const bfloat16* a = static_cast<const bfloat16*>(p.a) + blockIdx.y * kTile * p.k + first_k;
  const bfloat16* b = static_cast<const bfloat16*>(p.b) + first_k * p.n + blockIdx.x * kTile;
#pragma unroll
  for (int i = threadIdx.x; i < kPieces; i += kThreads) {
    const int a_row = i / (kDepth / 8), a_k = i % (kDepth / 8) * 8;
    const int b_k = i / (kTile / 8), b_column = i % (kTile / 8) * 8;
    copies.copy(to.piece_of_a(a_row, a_k), a + a_row * p.k + a_k);
    copies.copy(to.piece_of_b(b_k, b_column), b + b_k * p.n + b_column);
  }
  copies.commit();
}

/// sums += the products of sixteen k, from `k` on, of the warp's part, which begins at `row` and `column`.
__device__ __forceinline__ void multiply_sixteen(Tiles& tiles, int k, int row, int column,
                                                 float (&sums)[kRowProducts][kColumnProducts][4]) {
  const int lane = threadIdx.x % 32;
  unsigned a[kRowProducts][4];
  // Lanes 0 to 15 give the rows' left halves, lanes 16 to 31 the right ones: matrices in the order of mma's
  // A.
#pragma unroll
  for (int r = 0; r < kRowProducts; ++r) {
    load_matrices(tiles.piece_of_a(row + 16 * r + lane % 16, k + lane / 16 * 8), a[r]);
  }
  // Two products' worth of B: lanes 0 to 15 give 16 rows of k, lanes 16 to 31 the same, eight columns on.
#pragma unroll
  for (int c = 0; c < kColumnProducts; c += 2) {
    unsigned b[4];
    load_matrices<true>(tiles.piece_of_b(k + lane % 16, column + 8 * c + lane / 16 * 8), b);
#pragma unroll
    for (int r = 0; r < kRowProducts; ++r) {
      multiply_matrices(sums[r][c], a[r], {b[0], b[1]});
      multiply_matrices(sums[r][c + 1], a[r], {b[2], b[3]});
    }
  }
}

__global__ void __launch_bounds__(kThreads) tensor_core(GemmProblem p) {
  __shared__ Tiles tiles[2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 2 * kWarpTile, column = warp % 2 * kWarpTile;
  float sums[kRowProducts][kColumnProducts][4] = {};
  AsyncCopies copies;
  begin_copies(p, 0, tiles[0], copies);
  for (int step = 0; step * kDepth < p.k; ++step) {
    copies.wait<0>();
    __syncthreads();
    if ((step + 1) * kDepth < p.k) begin_copies(p, (step + 1) * kDepth, tiles[(step + 1) % 2], copies);
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) multiply_sixteen(tiles[step % 2], k, row, column, sums);
  }
  float* c = p.c + (blockIdx.y * kTile + row + lane / 4) * p.n + blockIdx.x * kTile + column + lane % 4 * 2;
#pragma unroll
  for (int r = 0; r < kRowProducts; ++r) {
#pragma unroll
    for (int i = 0; i < kColumnProducts; ++i) {
      const float* four = sums[r][i];
      float* to = c + 16 * r * p.n + 8 * i;
      store_vec(to, Vec<float, 2>{{four[0], four[1]}});
      store_vec(to + 8 * p.n, Vec<float, 2>{{four[2], four[3]}});
    }
  }
}

}  // namespace

void gemm_tensor_core(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / kTile, p.m / kTile);
  launch(tensor_core, {blocks, kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
