#include "kernels/common/kernel.h"
//
#include "kernels/ladders/gemm/gemm.h"

/// Rung 1: a thread for each element of C, which reads a row of A and a column of B.
///
/// threadIdx.x, along which the lanes of a warp are numbered, counts rows. So the lanes read 32 rows of A at
/// once: 32 sectors for 32 floats. They write C in the same way.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void naive(GemmProblem p) {
  const float* a = static_cast<const float*>(p.a);
  const float* b = static_cast<const float*>(p.b);
  const int row = blockIdx.x * 32 + threadIdx.x;
  const int column = blockIdx.y * 32 + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < p.k; ++i) {
    const float a_value = a[row * p.k + i];
    const float b_value = b[i * p.n + column];
    sum += a_value * b_value;
  }
  p.c[row * p.n + column] = sum;
}

}  // namespace

void gemm_naive(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.m / 32, p.n / 32);
  launch(naive, {blocks, {32, 32}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
