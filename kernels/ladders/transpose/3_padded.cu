#include "kernels/common/kernel.h"
//
#include "kernels/ladders/transpose/transpose.h"

/// Rung 3: a padded tile.
///
/// One unused float at the end of each row shifts every row by one bank. 32 elements of a column are then in
/// 32 different banks, and reading them takes one cycle.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 64;
constexpr int kRowsAtOnce = 4;

__global__ void padded(TransposeProblem p) {
  __shared__ float values[kTile][kTile + 1];
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

void transpose_padded(const Stream& stream, const TransposeProblem& p) {
  const dim3 blocks(p.columns / kTile, p.rows / kTile);
  launch(padded, {blocks, {kTile, kRowsAtOnce}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
