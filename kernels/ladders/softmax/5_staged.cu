#include "kernels/common/kernel.h"
//
#include "kernels/common/math.h"
#include "kernels/ladders/softmax/softmax.h"

/// Rung 5: the row is kept in shared memory.
///
/// The first pass copies the logits to shared memory, and the others read them there. Each byte of global
/// memory is read once and written once, which is the minimum. As a pass is cheap now, there are three again:
/// with the maximum known, the second computes and stores each exp, and the third only multiplies. That is
/// half the exps of rung 4, and no correction of the sum for a larger logit. The copy needs no barrier: each
/// thread reads only its own writes.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 128;

__global__ void staged(SoftmaxProblem p) {
  float* row = dynamic_shared<float>();
  const float* x = p.logits + blockIdx.x * p.classes;
  const int target = p.targets[blockIdx.x];
  float max = -INFINITY;
  for (int j = 4 * threadIdx.x; j < p.classes; j += 4 * kThreads) {
    const auto values = load_vec<4>(x + j);
    store_vec(row + j, values);
    max = maximum(max, maximum(maximum(values[0], values[1]), maximum(values[2], values[3])));
  }
  max = block_max(max);
  float sum = 0;
  for (int j = 4 * threadIdx.x; j < p.classes; j += 4 * kThreads) {
    auto values = load_vec<4>(row + j);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = softmax_exp(values[i] - max);
    store_vec(row + j, values);
    sum += values[0] + values[1] + (values[2] + values[3]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) p.loss[blockIdx.x] = logf(sum) - (x[target] - max);
  float* gradient = p.gradient + blockIdx.x * p.classes;
  const float scale = 1 / static_cast<float>(p.rows), scale_by_sum = scale / sum;
  for (int j = 4 * threadIdx.x; j < p.classes; j += 4 * kThreads) {
    auto values = load_vec<4>(row + j);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = values[i] * scale_by_sum - (j + i == target ? scale : 0.0f);
    store_vec(gradient + j, values);
  }
}

}  // namespace

void softmax_staged(const Stream& stream, const SoftmaxProblem& p) {
  const std::size_t bytes = static_cast<std::size_t>(p.classes) * sizeof(float);
  launch(staged, {static_cast<unsigned>(p.rows), kThreads, bytes}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
