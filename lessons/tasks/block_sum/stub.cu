// A block sum with shuffles. ./learn 22 task says what it has to do, ./learn 22 test tries it.
#include "lessons/tasks/block_sum/task.h"

using namespace ringtape::RINGTAPE_TARGET;  // CUDA's built-ins, on the CPU too

__global__ void block_sum(const float* x, float* sums) {
  float value = x[blockIdx.x * blockDim.x + threadIdx.x];
  // Your code: the sum of the warp by shuffles, the sums of all warps through shared memory.
  if (threadIdx.x == 0) sums[blockIdx.x] = value;
}
