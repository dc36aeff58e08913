#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/reduce_scratch.h"

/// One sum (or maximum) over a whole launch without float atomics: every block writes a partial result, and
/// the block that finishes last combines the results in a fixed order.
namespace ringtape::RINGTAPE_TARGET {

/// reduction_shape with at least one block, so that a sum of 0 elements is written too.
template <class T>
LaunchShape grid_sum_shape(std::int64_t n) {
  return reduction_shape<T>(maximum<std::int64_t>(n, 1));
}

/// A block's share of n items (rows, tiles), where there may be more items than blocks:
///   for (std::int64_t i = share.first; i < share.end; i += share.step)
/// On the GPU concurrent blocks have neighbouring items; on the CPU a block has a contiguous range.
struct BlockShare {
  std::int64_t first, end, step;
};

__device__ inline BlockShare share_of_block(std::int64_t n) {
  if constexpr (kGpuGeometry) return {blockIdx.x, n, gridDim.x};
  const std::int64_t length = ceil_div(n, gridDim.x);
  return {blockIdx.x * length, minimum(n, (blockIdx.x + 1) * length), 1};
}

/// Called once by all threads of every block, with the block's partial result in thread 0. In the block that
/// finishes last it returns true and sets `total`, in all threads, to the combination of 0 and all partial
/// results; in other blocks it returns false. At most ReduceScratch::kMaxBlocks blocks.
template <class Op>
__device__ inline bool grid_reduce(double block_partial, ReduceScratch* scratch, double& total) {
  if (threadIdx.x == 0) scratch->partial[blockIdx.x] = block_partial;
  if (!last_block_done(&scratch->blocks_done)) return false;
  double result = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
    result = Op::combine(result, scratch->partial[block]);
  }
  total = block_reduce<Op>(result, SourceLocation::here());
  return true;
}

/// The same for two sums at once. At most ReduceScratch::kMaxPartials / 2 blocks.
__device__ inline bool grid_sums(const double (&block_partials)[2], ReduceScratch* scratch,
                                 double (&totals)[2]) {
  if (threadIdx.x == 0) {
    for (unsigned s = 0; s < 2; ++s) scratch->partial[s * gridDim.x + blockIdx.x] = block_partials[s];
  }
  if (!last_block_done(&scratch->blocks_done)) return false;
  for (unsigned s = 0; s < 2; ++s) {
    double sum = 0;
    for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
      sum += scratch->partial[s * gridDim.x + block];
    }
    totals[s] = block_sum(sum);
  }
  return true;
}

__device__ inline bool grid_sum(double block_partial, ReduceScratch* scratch, double& total) {
  return grid_reduce<Sum>(block_partial, scratch, total);
}

}  // namespace ringtape::RINGTAPE_TARGET
