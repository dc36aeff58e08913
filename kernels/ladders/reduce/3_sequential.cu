#include "kernels/ladders/reduce/passes.h"

/// Rung 3: the added floats are neighbours too.
///
/// Each round folds the upper half onto the lower one. Neighbouring lanes read neighbouring floats: no bank
/// conflicts.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void sequential(const float* x, std::int64_t n, bool squares, float* partial) {
  __shared__ float values[kReduceThreads];
  const int t = threadIdx.x;
  values[t] = element(x, std::int64_t{blockIdx.x} * kReduceThreads + t, n, squares);
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

void reduce_sequential(const Stream& stream, const ReduceProblem& problem) {
  reduce_in_passes(stream, problem, sequential, kReduceThreads);
}

}  // namespace ringtape::RINGTAPE_TARGET
