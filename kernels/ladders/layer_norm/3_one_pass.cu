#include "kernels/common/kernel.h"
//
#include "kernels/ladders/layer_norm/layer_norm.h"

/// Rung 3: mean and variance in one pass.
///
/// variance = mean of squares - square of the mean would need one pass, but subtracts two numbers that are
/// nearly equal where the mean far exceeds the deviation. Shifted by an element of the row they no longer
/// are: with d = x - x[0], mean = x[0] + E[d] and variance = E[d^2] - E[d]^2 (Chan, Golub and LeVeque,
/// "Algorithms for computing the sample variance", 1983). The row is read twice instead of three times.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 128;

__global__ void one_pass(LayerNormProblem p) {
  const float* x = p.in + blockIdx.x * p.columns;
  const float inverse_count = 1 / static_cast<float>(p.columns);
  const float shift = x[0];
  float sum = 0, squares = 0;
  for (int j = threadIdx.x; j < p.columns; j += kThreads) {
    const float difference = x[j] - shift;
    sum += difference;
    squares += difference * difference;
  }
  const float shifted_mean = block_sum(sum) * inverse_count;
  const float mean = shift + shifted_mean;
  const float variance = block_sum(squares) * inverse_count - shifted_mean * shifted_mean;
  const float rstd = 1 / sqrtf(maximum(variance, 0.0f) + kLadderNormEps);
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

void layer_norm_one_pass(const Stream& stream, const LayerNormProblem& p) {
  launch(one_pass, {static_cast<unsigned>(p.rows), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
