#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/common/mma_tile.h"
#include "kernels/ladders/gemm/gemm.h"

/// Rung 9: tensor cores.
///
/// A and B are bf16: half the bytes everywhere. A warp multiplies 16 x 16 by 16 x 8 with one instruction,
/// 2048 multiply-adds, and loads its operands by ldmatrix, which distributes 512 bytes of shared memory over
/// the lanes. The sums stay f32. A warp's part of C is 64 x 64, as on rung 8: 4 x 8 products for each 16 of
/// k.
///
/// The tiles and the products of a warp are in kernels/common/mma_tile.h, where the library's own 16-bit
/// product (kernels/gemm_large_half.cu) has them too. B has k first, but mma needs it last: ldmatrix
/// transposes.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 128;  // rows and columns of C
constexpr int kDepth = 32;  // of a step along k
constexpr int kWarpTile = 64;
constexpr int kThreads = 128;
constexpr int kPieces = kTile * kDepth / 8;  // of 16 bytes, in each tile

using ATile = MmaTile<true, kTile, kDepth>;
using BTile = MmaTile<false, kTile, kDepth>;
struct Tiles {
  alignas(128) bfloat16 a[ATile::elements];
  alignas(128) bfloat16 b[BTile::elements];
};

__device__ __forceinline__ void begin_copies(const GemmProblem& p, int first_k, Tiles& to,
                                             AsyncCopies& copies) {
  const bfloat16* a = static_cast<const bfloat16*>(p.a) + blockIdx.y * kTile * p.k + first_k;
  const bfloat16* b = static_cast<const bfloat16*>(p.b) + first_k * p.n + blockIdx.x * kTile;
#pragma unroll
  for (int i = threadIdx.x; i < kPieces; i += kThreads) {
    const int a_row = i / (kDepth / 8), a_k = i % (kDepth / 8) * 8;
    const int b_k = i / (kTile / 8), b_column = i % (kTile / 8) * 8;
    copies.copy(to.a + ATile::place(a_row, a_k), a + a_row * p.k + a_k);
    copies.copy(to.b + BTile::place(b_column, b_k), b + b_k * p.n + b_column);
  }
  copies.commit();
}

__global__ void __launch_bounds__(kThreads) tensor_core(GemmProblem p) {
  __shared__ Tiles tiles[2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 2 * kWarpTile, column = warp % 2 * kWarpTile;
  WarpProducts products;
  AsyncCopies copies;
  begin_copies(p, 0, tiles[0], copies);
  for (int step = 0; step * kDepth < p.k; ++step) {
    copies.wait<0>();
    __syncthreads();
    if ((step + 1) * kDepth < p.k) begin_copies(p, (step + 1) * kDepth, tiles[(step + 1) % 2], copies);
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      WarpProducts::Operands operands;
      load_operands<ATile, BTile>(tiles[step % 2].a, tiles[step % 2].b, row, column, k, operands);
      products.multiply<bfloat16>(operands);
    }
  }
  float* c = p.c + (blockIdx.y * kTile + row + lane / 4) * p.n + blockIdx.x * kTile + column + lane % 4 * 2;
#pragma unroll
  for (int r = 0; r < WarpProducts::rows; ++r) {
#pragma unroll
    for (int i = 0; i < WarpProducts::columns; ++i) {
      const float* four = products.sums[r][i];
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
