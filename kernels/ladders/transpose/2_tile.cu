#include "kernels/common/kernel.h"
//
#include "kernels/ladders/transpose/transpose.h"

/// Rung 2: a tile in shared memory.
///
/// The block copies 64 x 64 floats into shared memory, row by row, and out of it column by column. In global
/// memory reads and writes are then whole rows of 128 bytes, 4 sectors a request. Only accesses to shared
/// memory are scattered, where distance costs nothing. But bank conflicts do: a column of the tile is in one
/// bank, so a warp's read of it takes 32 cycles instead of one.
///
/// Each thread has 16 elements: the barrier and the address arithmetic are paid once for all of them.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 64;
constexpr int kRowsAtOnce = 4;

__global__ void tile(TransposeProblem p) {
  __shared__ float values[kTile][kTile];
  const int first_column = blockIdx.x * kTile, first_row = blockIdx.y * kTile;
  const int x = threadIdx.x;
  for (int y = threadIdx.y; y < kTile; y += kRowsAtOnce) {
    values[y][x] = p.in[(first_row + y) * p.columns + first_column + x];
  }
  __syncthreads();
  for (int y = threadIdx.y; y < kTile; y += kRowsAtOnce) {
    p.out[(first_column + y) * p.rows + first_row + x] = values[x][y];
  }
}

}  // namespace

void transpose_tile(const Stream& stream, const TransposeProblem& p) {
  const dim3 blocks(p.columns / kTile, p.rows / kTile);
  launch(tile, {blocks, {kTile, kRowsAtOnce}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
