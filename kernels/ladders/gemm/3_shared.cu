#include "kernels/common/kernel.h"
//
#include "kernels/ladders/gemm/gemm.h"

/// Rung 3: tiles in shared memory.
///
/// The block loops over k in steps of 32. In each, every thread copies one float of A and one of B into
/// shared memory, and all 1024 threads multiply from there. A float that was read from global memory 32 times
/// is read once. The first barrier: no thread multiplies before the tiles are full. The second: no thread
/// overwrites them before all have multiplied.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kTile = 32;

__global__ void shared(GemmProblem p) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const float* a = static_cast<const float*>(p.a) + (blockIdx.y * kTile + y) * p.k + x;
  const float* b = static_cast<const float*>(p.b) + y * p.n + blockIdx.x * kTile + x;
  float sum = 0;
  for (int first = 0; first < p.k; first += kTile) {
    a_tile[y][x] = a[first];
    b_tile[y][x] = b[first * p.n];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      const float a_value = a_tile[y][i];
      const float b_value = b_tile[i][x];
      sum += a_value * b_value;
    }
    __syncthreads();
  }
  p.c[(blockIdx.y * kTile + y) * p.n + blockIdx.x * kTile + x] = sum;
}

}  // namespace

void gemm_shared(const Stream& stream, const GemmProblem& p) {
  const dim3 blocks(p.n / kTile, p.m / kTile);
  launch(shared, {blocks, {kTile, kTile}}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
