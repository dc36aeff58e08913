#pragma once

#include "kernels/common/kernel.h"

#include "kernels/ladders/reduce/reduce.h"

/// For rungs 1 to 5: a kernel that writes one sum for each block, launched until one sum is left.
namespace ringtape::RINGTAPE_TARGET {

constexpr int kReduceThreads = 256;

/// Adds up x[0] to x[n - 1], or their squares: each block its own elements, to partial[blockIdx.x].
using PartialSums = void (*)(const float* x, std::int64_t n, bool squares, float* partial);

__device__ inline float element(const float* x, std::int64_t i, std::int64_t n, bool squares) {
  if (i >= n) return 0;
  const float value = x[i];
  return squares ? value * value : value;
}

inline void reduce_in_passes(const Stream& stream, const ReduceProblem& p, PartialSums kernel,
                             int elements_per_block) {
  const float* x = p.x;
  float* scratch = p.scratch;
  bool squares = p.squares;
  for (std::int64_t n = p.n; n > 1 || x == p.x;) {
    const std::int64_t blocks = ceil_div(n, elements_per_block);
    float* partial = blocks == 1 ? p.result : scratch;
    launch(kernel, {static_cast<unsigned>(blocks), kReduceThreads}, stream, x, n, squares, partial);
    x = partial;
    n = blocks;
    scratch += blocks;
    squares = false;
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
