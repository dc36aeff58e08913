#include "kernels/ladders/reduce/passes.h"

/// Rung 1: a tree in shared memory, by neighbours.
///
/// First every second thread adds its right neighbour, then every fourth, and so on: eight rounds for 256
/// floats. In the first five rounds the adding threads are spread over all warps, so every warp diverges at
/// the branch; in the fifth only one lane of each warp adds.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void interleaved(const float* x, std::int64_t n, bool squares, float* partial) {
  __shared__ float values[kReduceThreads];
  const int t = threadIdx.x;
  values[t] = element(x, std::int64_t{blockIdx.x} * kReduceThreads + t, n, squares);
  __syncthreads();
  for (int step = 1; step < kReduceThreads; step *= 2) {
    if (t % (2 * step) == 0) {
      values[t] += values[t + step];
    }
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = values[0];
}

}  // namespace

void reduce_interleaved(const Stream& stream, const ReduceProblem& problem) {
  reduce_in_passes(stream, problem, interleaved, kReduceThreads);
}

}  // namespace ringtape::RINGTAPE_TARGET
