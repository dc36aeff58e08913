#include "kernels/ladders/reduce/passes.h"

/// Rung 2: the adding threads are neighbours.
///
/// The same additions, but in each round by the first threads of the block. Whole warps are idle and skip the
/// branch; only a partly active warp still diverges. The price: the added floats are 2, 4, 8 ... apart, in
/// ever fewer banks.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void packed(const float* x, std::int64_t n, bool squares, float* partial) {
  __shared__ float values[kReduceThreads];
  const int t = threadIdx.x;
  values[t] = element(x, std::int64_t{blockIdx.x} * kReduceThreads + t, n, squares);
  __syncthreads();
  for (int step = 1; step < kReduceThreads; step *= 2) {
    const int at = 2 * step * t;
    if (at < kReduceThreads) {
      values[at] += values[at + step];
    }
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = values[0];
}

}  // namespace

void reduce_packed(const Stream& stream, const ReduceProblem& problem) {
  reduce_in_passes(stream, problem, packed, kReduceThreads);
}

}  // namespace ringtape::RINGTAPE_TARGET
