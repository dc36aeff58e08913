#include "kernels/common/kernel.h"
//
#include "kernels/ladders/softmax/softmax.h"

/// Rung 3: maximum and sum in one pass.
///
/// A thread keeps a running maximum and the sum of exp(x - maximum so far). For a larger x the sum so far is
/// multiplied by exp(old maximum - new maximum). (Milakov and Gimelshein, "Online normalizer calculation for
/// softmax", 2018.) The row is read twice instead of three times.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 128;

__global__ void online(SoftmaxProblem p) {
  const float* x = p.logits + blockIdx.x * p.classes;
  const int target = p.targets[blockIdx.x];
  float max = -INFINITY, sum = 0;
  for (int j = threadIdx.x; j < p.classes; j += kThreads) {
    const float value = x[j];
    if (value > max) {
      sum *= expf(max - value);  // exp(-inf) is 0: the first value starts the sum
      max = value;
    }
    sum += expf(value - max);
  }
  const float max_of_row = block_max(max);
  sum = block_sum(sum * expf(max - max_of_row));
  if (threadIdx.x == 0) p.loss[blockIdx.x] = logf(sum) - (x[target] - max_of_row);
  float* gradient = p.gradient + blockIdx.x * p.classes;
  const float scale = 1 / static_cast<float>(p.rows);
  for (int j = threadIdx.x; j < p.classes; j += kThreads) {
    const float softmax = expf(x[j] - max_of_row) / sum;
    gradient[j] = (softmax - (j == target ? 1.0f : 0.0f)) * scale;
  }
}

}  // namespace

void softmax_online(const Stream& stream, const SoftmaxProblem& p) {
  launch(online, {static_cast<unsigned>(p.rows), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
