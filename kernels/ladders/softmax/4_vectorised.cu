#include "kernels/common/kernel.h"
//
#include "kernels/common/math.h"
#include "kernels/ladders/softmax/softmax.h"

/// Rung 4: 16 bytes an instruction, and cheaper arithmetic.
///
/// One load reads four logits; the running maximum changes at most once for the four, and the sum has one
/// dependent addition instead of four. exp is a cheaper form for arguments up to 0 (kernels/common/math.h),
/// and divisions by the sum are multiplications by its inverse.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 128;

__global__ void vectorised(SoftmaxProblem p) {
  const float* x = p.logits + blockIdx.x * p.classes;
  const int target = p.targets[blockIdx.x];
  float max = -INFINITY, sum = 0;
  for (int j = 4 * threadIdx.x; j < p.classes; j += 4 * kThreads) {
    auto values = load_vec<4>(x + j);
    const float max_of_four = maximum(maximum(values[0], values[1]), maximum(values[2], values[3]));
    if (max_of_four > max) {
      sum *= softmax_exp(max - max_of_four);
      max = max_of_four;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = softmax_exp(values[i] - max);
    sum += values[0] + values[1] + (values[2] + values[3]);
  }
  const float max_of_row = block_max(max);
  sum = block_sum(sum * softmax_exp(max - max_of_row));
  if (threadIdx.x == 0) p.loss[blockIdx.x] = logf(sum) - (x[target] - max_of_row);
  float* gradient = p.gradient + blockIdx.x * p.classes;
  const float scale = 1 / static_cast<float>(p.rows), scale_by_sum = scale / sum;
  for (int j = 4 * threadIdx.x; j < p.classes; j += 4 * kThreads) {
    auto values = load_vec<4>(x + j);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = softmax_exp(values[i] - max_of_row) * scale_by_sum - (j + i == target ? scale : 0.0f);
    }
    store_vec(gradient + j, values);
  }
}

}  // namespace

void softmax_vectorised(const Stream& stream, const SoftmaxProblem& p) {
  launch(vectorised, {static_cast<unsigned>(p.rows), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
