#include "kernels/ladders/reduce/passes.h"

/// Rung 4: four elements for each thread.
///
/// A thread adds four floats as it reads them, 256 apart so that each read of a warp is still 128
/// neighbouring bytes, and then comes the tree. The cost of its barriers and idle threads is paid once for
/// 1024 elements.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kPerThread = 4;
constexpr int kPerBlock = kPerThread * kReduceThreads;

__global__ void first_add(const float* x, std::int64_t n, bool squares, float* partial) {
  __shared__ float values[kReduceThreads];
  const int t = threadIdx.x;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    sum += element(x, std::int64_t{blockIdx.x} * kPerBlock + i * kReduceThreads + t, n, squares);
  }
  values[t] = sum;
  __syncthreads();
  for (int step = kReduceThreads / 2; step > 0; step /= 2) {
    if (t < step) {
      values[t] += values[t + step];
    }
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = values[0];
}

}  // namespace

void reduce_first_add(const Stream& stream, const ReduceProblem& problem) {
  reduce_in_passes(stream, problem, first_add, kPerBlock);
}

}  // namespace ringtape::RINGTAPE_TARGET
