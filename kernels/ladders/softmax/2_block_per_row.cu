#include "kernels/common/kernel.h"
//
#include "kernels/ladders/softmax/softmax.h"

/// Rung 2: a block for each row.
///
/// The threads of a block read neighbouring elements of one row: 4 sectors a request. The maximum and the sum
/// are now spread over the block and are combined by block_max and block_sum (kernels/common/block_reduce.h;
/// rung 5 of the reduction ladder).
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 128;

__global__ void block_per_row(SoftmaxProblem p) {
  const float* x = p.logits + blockIdx.x * p.classes;
  const int target = p.targets[blockIdx.x];
  float max = x[0];
  for (int j = threadIdx.x; j < p.classes; j += kThreads) max = maximum(max, x[j]);
  max = block_max(max);
  float sum = 0;
  for (int j = threadIdx.x; j < p.classes; j += kThreads) sum += expf(x[j] - max);
  sum = block_sum(sum);
  if (threadIdx.x == 0) p.loss[blockIdx.x] = logf(sum) - (x[target] - max);
  float* gradient = p.gradient + blockIdx.x * p.classes;
  const float scale = 1 / static_cast<float>(p.rows);
  for (int j = threadIdx.x; j < p.classes; j += kThreads) {
    const float softmax = expf(x[j] - max) / sum;
    gradient[j] = (softmax - (j == target ? 1.0f : 0.0f)) * scale;
  }
}

}  // namespace

void softmax_block_per_row(const Stream& stream, const SoftmaxProblem& p) {
  launch(block_per_row, {static_cast<unsigned>(p.rows), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
