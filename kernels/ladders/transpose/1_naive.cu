#include "kernels/common/kernel.h"
//
#include "kernels/ladders/transpose/transpose.h"

/// Rung 1: a thread for each element.
///
/// Neighbouring lanes read neighbouring floats: a warp's read is 4 sectors. But they write floats that are
/// `rows` floats apart, so a warp's write is 32 sectors with 4 bytes used of each: an eighth.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void naive(TransposeProblem p) {
  const int column = blockIdx.x * 32 + threadIdx.x;
  const int row = blockIdx.y * 8 + threadIdx.y;
  const float value = p.in[row * p.columns + column];
  p.out[column * p.rows + row] = value;
}

}  // namespace

void transpose_naive(const Stream& stream, const TransposeProblem& p) {
  const dim3 blocks(p.columns / 32, p.rows / 8);
  launch(naive, {blocks, {32, 8}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
