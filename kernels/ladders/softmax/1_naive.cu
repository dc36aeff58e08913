#include "kernels/common/kernel.h"
//
#include "kernels/ladders/softmax/softmax.h"

/// Rung 1: a thread for each row.
///
/// Three passes over the row: the maximum (so that no exp overflows), the sum of exp(x - max), the gradient.
/// The lanes of a warp are in 32 rows, `classes` floats apart: each of their reads and writes is 32 sectors,
/// with 4 bytes used of each.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 64;

__global__ void naive(SoftmaxProblem p) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const float* x = p.logits + row * p.classes;
  const int target = p.targets[row];
  float max = x[0];
  for (int j = 1; j < p.classes; ++j) max = maximum(max, x[j]);
  float sum = 0;
  for (int j = 0; j < p.classes; ++j) sum += expf(x[j] - max);
  p.loss[row] = logf(sum) - (x[target] - max);
  float* gradient = p.gradient + row * p.classes;
  const float scale = 1 / static_cast<float>(p.rows);
  for (int j = 0; j < p.classes; ++j) {
    const float softmax = expf(x[j] - max) / sum;
    gradient[j] = (softmax - (j == target ? 1.0f : 0.0f)) * scale;
  }
}

}  // namespace

void softmax_naive(const Stream& stream, const SoftmaxProblem& p) {
  launch(naive, {static_cast<unsigned>(p.rows / kThreads), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
