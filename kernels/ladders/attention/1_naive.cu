#include "kernels/common/kernel.h"
//
#include "kernels/ladders/attention/attention.h"

/// Rung 1: three kernels, as the formula has three steps.
///
/// The scores of all pairs of tokens, then the softmax of each row, then the weighted sum of the values. So
/// tokens x tokens floats a head are written and read again: for 4096 tokens and 12 heads 805 MB, where q, k,
/// v and out are 50 MB. The lanes of a warp read 32 different keys, 64 floats apart.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kWidth = kLadderHeadWidth;
constexpr int kThreads = 64;
constexpr float kScale = 0.125f;

/// A thread for each score. Scores above the diagonal are neither written nor read.
__global__ void naive_scores(LadderAttention p) {
  const int key = blockIdx.x * kThreads + threadIdx.x;
  const int query = blockIdx.y, head = blockIdx.z;
  if (key > query) return;
  const float* q = static_cast<const float*>(p.q) + (head * p.tokens + query) * kWidth;
  const float* k = static_cast<const float*>(p.k) + (head * p.tokens + key) * kWidth;
  float sum = 0;
  for (int d = 0; d < kWidth; ++d) sum += q[d] * k[d];
  p.scores[(head * p.tokens + query) * p.tokens + key] = sum * kScale;
}

/// A thread for each row.
__global__ void naive_softmax(LadderAttention p) {
  const int query = blockIdx.x * kThreads + threadIdx.x, head = blockIdx.y;
  float* row = p.scores + (head * p.tokens + query) * p.tokens;
  float max = row[0];
  for (int j = 1; j <= query; ++j) max = maximum(max, row[j]);
  float sum = 0;
  for (int j = 0; j <= query; ++j) sum += expf(row[j] - max);
  for (int j = 0; j <= query; ++j) row[j] = expf(row[j] - max) / sum;
}

/// A thread for each element of the result.
__global__ void naive_values(LadderAttention p) {
  const int query = blockIdx.x, head = blockIdx.y;
  const float* weights = p.scores + (head * p.tokens + query) * p.tokens;
  const float* v = static_cast<const float*>(p.v) + head * p.tokens * kWidth + threadIdx.x;
  float sum = 0;
  for (int j = 0; j <= query; ++j) sum += weights[j] * v[j * kWidth];
  p.out[(head * p.tokens + query) * kWidth + threadIdx.x] = sum;
}

}  // namespace

void attention_naive(const Stream& stream, const LadderAttention& p) {
  const auto tokens = static_cast<unsigned>(p.tokens), heads = static_cast<unsigned>(p.heads);
  launch(naive_scores, {dim3(tokens / kThreads, tokens, heads), kThreads}, stream, p);
  launch(naive_softmax, {dim3(tokens / kThreads, heads), kThreads}, stream, p);
  launch(naive_values, {dim3(tokens, heads), kWidth}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
