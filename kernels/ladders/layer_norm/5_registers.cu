#include "kernels/common/kernel.h"
//
#include "kernels/ladders/layer_norm/layer_norm.h"

/// Rung 5: the row stays in registers.
///
/// A thread keeps its elements, up to eight vectors of four, so each byte of the row comes from memory once;
/// the loop has a fixed number of rounds and is unrolled, because registers cannot be indexed. All loads of a
/// row are in flight together. Passes are cheap now, so the mean comes first again, and the variance is the
/// mean of the squared differences from it, which rounds best. The library's norms are like this
/// (kernels/common/rows.h).
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kKept = 8192 / (4 * kThreads);  // vectors of a thread

__global__ void __launch_bounds__(kThreads) registers(LayerNormProblem p) {
  const float* x = p.in + blockIdx.x * p.columns;
  const float inverse_count = 1 / static_cast<float>(p.columns);
  Vec<float, 4> kept[kKept];
  float sum = 0, squares = 0;
#pragma unroll
  for (int v = 0; v < kKept; ++v) {
    const int j = 4 * (threadIdx.x + v * kThreads);
    if (j >= p.columns) continue;
    kept[v] = load_aligned<4>(x + j);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += kept[v][i];
  }
  const float mean = block_sum(sum) * inverse_count;
#pragma unroll
  for (int v = 0; v < kKept; ++v) {
    const int j = 4 * (threadIdx.x + v * kThreads);
    if (j >= p.columns) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) squares += (kept[v][i] - mean) * (kept[v][i] - mean);
  }
  const float rstd = 1 / sqrtf(block_sum(squares) * inverse_count + kLadderNormEps);
  float* out = p.out + blockIdx.x * p.columns;
#pragma unroll
  for (int v = 0; v < kKept; ++v) {
    const int j = 4 * (threadIdx.x + v * kThreads);
    if (j >= p.columns) continue;
    const auto weight = load_aligned<4>(p.weight + j), bias = load_aligned<4>(p.bias + j);
    Vec<float, 4> values;
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = (kept[v][i] - mean) * rstd * weight[i] + bias[i];
    store_aligned(out + j, values);
  }
  if (threadIdx.x == 0) {
    p.mean[blockIdx.x] = mean;
    p.rstd[blockIdx.x] = rstd;
  }
}

}  // namespace

void layer_norm_registers(const Stream& stream, const LayerNormProblem& p) {
  launch(registers, {static_cast<unsigned>(p.rows), kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
