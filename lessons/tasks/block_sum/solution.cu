#include "lessons/tasks/block_sum/task.h"

using namespace ringtape::RINGTAPE_TARGET;

__global__ void block_sum(const float* x, float* sums) {
  __shared__ float of_warp[32];
  float value = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  if (warp > 0) return;
  value = lane < warps ? of_warp[lane] : 0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
  if (lane == 0) sums[blockIdx.x] = value;
}
