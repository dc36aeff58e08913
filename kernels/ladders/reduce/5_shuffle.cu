#include "kernels/ladders/reduce/passes.h"

/// Rung 5: shuffles within a warp.
///
/// The lanes of a warp exchange registers (warp_sum, kernels/common/block_reduce.h), without shared memory or
/// barriers. Then each warp writes one float, and after the only barrier the first warp adds these up.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kPerThread = 4;
constexpr int kPerBlock = kPerThread * kReduceThreads;
constexpr int kWarps = kReduceThreads / 32;

__global__ void shuffle(const float* x, std::int64_t n, bool squares, float* partial) {
  __shared__ float of_warps[kWarps];
  const int t = threadIdx.x;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    sum += element(x, std::int64_t{blockIdx.x} * kPerBlock + i * kReduceThreads + t, n, squares);
  }
  sum = warp_sum(sum);
  if (t % 32 == 0) of_warps[t / 32] = sum;
  __syncthreads();
  if (t < 32) {
    sum = warp_sum(t < kWarps ? of_warps[t] : 0.0f);
    if (t == 0) partial[blockIdx.x] = sum;
  }
}

}  // namespace

void reduce_shuffle(const Stream& stream, const ReduceProblem& problem) {
  reduce_in_passes(stream, problem, shuffle, kPerBlock);
}

}  // namespace ringtape::RINGTAPE_TARGET
