#include "kernels/common/kernel.h"
//
#include "kernels/ladders/gemm/gemm.h"

/// Rung 2: threadIdx.x counts columns.
///
/// The lanes of a warp then have neighbouring columns of one row: they read one float of A together (1
/// sector), 32 neighbouring floats of B (4 sectors), and write 32 neighbouring floats of C. The rest is as
/// before.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void coalesced(GemmProblem p) {
  const float* a = static_cast<const float*>(p.a);
  const float* b = static_cast<const float*>(p.b);
  const int row = blockIdx.y * 32 + threadIdx.y;
  const int column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < p.k; ++i) {
    const float a_value = a[row * p.k + i];
    const float b_value = b[i * p.n + column];
    sum += a_value * b_value;
  }
  p.c[row * p.n + column] = sum;
}

}  // namespace

void gemm_coalesced(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / 32, p.m / 32);
  launch(coalesced, {blocks, {32, 32}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
