#include "kernels/common/kernel.h"
//
#include "kernels/ladders/layer_norm/layer_norm.h"

/// Rung 1: a thread for each row.
///
/// Three passes over the row: the mean, the mean of the squared differences from it, the result. The lanes of
/// a warp are in 32 rows, `columns` floats apart: each of their reads and writes is 32 sectors, with 4 bytes
/// used of each.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 64;

__global__ void naive(LayerNormProblem p) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const float* x = p.in + row * p.columns;
  const float inverse_count = 1 / static_cast<float>(p.columns);
  float sum = 0, squares = 0;
  for (int j = 0; j < p.columns; ++j) sum += x[j];
  const float mean = sum * inverse_count;
  for (int j = 0; j < p.columns; ++j) squares += (x[j] - mean) * (x[j] - mean);
  const float rstd = 1 / sqrtf(squares * inverse_count + kLadderNormEps);
  float* out = p.out + row * p.columns;
  for (int j = 0; j < p.columns; ++j) out[j] = (x[j] - mean) * rstd * p.weight[j] + p.bias[j];
  p.mean[row] = mean;
  p.rstd[row] = rstd;
}

}  // namespace

void layer_norm_naive(const Stream& stream, const LayerNormProblem& p) {
  launch(naive, {static_cast<unsigned>(p.rows / kThreads), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
