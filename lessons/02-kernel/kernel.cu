#include "kernels/common/kernel.h"

#include "lessons/02-kernel/kernel.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void double_each(int n, const float* x, float* y, int* block, int* thread) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;  // the last block may have more threads than remaining elements
  y[i] = 2 * x[i];
  block[i] = static_cast<int>(blockIdx.x);
  thread[i] = static_cast<int>(threadIdx.x);
}

__global__ void sum_by_halving(bool with_barriers, const float* x, float* sums) {
  float* values = dynamic_shared<float>();
  const unsigned t = threadIdx.x;
  values[t] = x[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) values[t] += values[t + half];
    if (with_barriers) __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = values[0];
}

}  // namespace

void lesson_double(const Stream& stream, int blocks, int threads, int n, const float* x, float* y, int* block,
                   int* thread) {
  launch(double_each, {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)}, stream, n, x, y, block,
         thread);
}

void lesson_block_sum(const Stream& stream, int blocks, int threads, bool with_barriers, const float* x,
                      float* sums) {
  const auto width = static_cast<unsigned>(threads);
  launch(sum_by_halving, {static_cast<unsigned>(blocks), width, width * sizeof(float)}, stream, with_barriers,
         x, sums);
}

}  // namespace ringtape::RINGTAPE_TARGET
