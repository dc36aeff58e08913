#include "kernels/common/kernel.h"
//
#include "kernels/ladders/layer_norm/layer_norm.h"

/// Rung 2: a block for each row.
///
/// The threads of a block read neighbouring elements of one row: 4 sectors a request. Both sums are now
/// spread over the block and combined by block_sum (kernels/common/block_reduce.h), each with its barriers.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 128;

__global__ void block_per_row(LayerNormProblem p) {
  const float* x = p.in + blockIdx.x * p.columns;
  const float inverse_count = 1 / static_cast<float>(p.columns);
  float sum = 0, squares = 0;
  for (int j = threadIdx.x; j < p.columns; j += kThreads) sum += x[j];
  const float mean = block_sum(sum) * inverse_count;
  for (int j = threadIdx.x; j < p.columns; j += kThreads) squares += (x[j] - mean) * (x[j] - mean);
  const float rstd = 1 / sqrtf(block_sum(squares) * inverse_count + kLadderNormEps);
  float* out = p.out + blockIdx.x * p.columns;
  for (int j = threadIdx.x; j < p.columns; j += kThreads) {
    out[j] = (x[j] - mean) * rstd * p.weight[j] + p.bias[j];
  }
  if (threadIdx.x == 0) {
    p.mean[blockIdx.x] = mean;
    p.rstd[blockIdx.x] = rstd;
  }
}

}  // namespace

void layer_norm_block_per_row(const Stream& stream, const LayerNormProblem& p) {
  launch(block_per_row, {static_cast<unsigned>(p.rows), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
