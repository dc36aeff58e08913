#include "kernels/common/kernel.h"
//
#include "kernels/ladders/layer_norm/layer_norm.h"

/// Rung 4: 16 bytes an instruction.
///
/// A load reads four floats, a store writes four: a quarter of the requests for the same bytes, and four
/// times as many bytes in flight for each instruction that waits.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 128;

__global__ void vectorised(LayerNormProblem p) {
  const float* x = p.in + blockIdx.x * p.columns;
  const float inverse_count = 1 / static_cast<float>(p.columns);
  const float shift = x[0];
  float sum = 0, squares = 0;
  for (int j = 4 * threadIdx.x; j < p.columns; j += 4 * kThreads) {
    const auto values = load_aligned<4>(x + j);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float difference = values[i] - shift;
      sum += difference;
      squares += difference * difference;
    }
  }
  const float shifted_mean = block_sum(sum) * inverse_count;
  const float mean = shift + shifted_mean;
  const float variance = block_sum(squares) * inverse_count - shifted_mean * shifted_mean;
  const float rstd = 1 / sqrtf(maximum(variance, 0.0f) + kLadderNormEps);
  float* out = p.out + blockIdx.x * p.columns;
  for (int j = 4 * threadIdx.x; j < p.columns; j += 4 * kThreads) {
    auto values = load_aligned<4>(x + j);
    const auto weight = load_aligned<4>(p.weight + j), bias = load_aligned<4>(p.bias + j);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = (values[i] - mean) * rstd * weight[i] + bias[i];
    store_aligned(out + j, values);
  }
  if (threadIdx.x == 0) {
    p.mean[blockIdx.x] = mean;
    p.rstd[blockIdx.x] = rstd;
  }
}

}  // namespace

void layer_norm_vectorised(const Stream& stream, const LayerNormProblem& p) {
  launch(vectorised, {static_cast<unsigned>(p.rows), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
