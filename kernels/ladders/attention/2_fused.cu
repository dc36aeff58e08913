#include "kernels/common/kernel.h"
//
#include "kernels/ladders/attention/attention.h"

/// Rung 2: one kernel, a block for each query.
///
/// The query's scores stay in shared memory, so nothing of size tokens x tokens is in global memory. A warp
/// takes a key, its lanes two of the elements each, so that they read neighbours; the sum over the lanes is a
/// warp_sum (kernels/common/block_reduce.h). But every query reads all keys and values before it from global
/// memory, and the number of tokens is bounded by shared memory.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kWidth = kLadderHeadWidth;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kParts = kThreads / kWidth;  // of the keys, in the weighted sum
constexpr float kScale = 0.125f;

__global__ void fused(LadderAttention p) {
  float* const weights = dynamic_shared<float>();
  float* const sums = weights + p.tokens;  // [kParts, kWidth]
  const int query = blockIdx.x, head = blockIdx.y;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* q = static_cast<const float*>(p.q) + (head * p.tokens + query) * kWidth;
  const float* k = static_cast<const float*>(p.k) + head * p.tokens * kWidth;
  const float* v = static_cast<const float*>(p.v) + head * p.tokens * kWidth;
  const float q_low = q[lane] * kScale, q_high = q[lane + 32] * kScale;
  for (int j = warp; j <= query; j += kWarps) {
    const float score = warp_sum(q_low * k[j * kWidth + lane] + q_high * k[j * kWidth + lane + 32]);
    if (lane == 0) weights[j] = score;
  }
  __syncthreads();
  float max = -INFINITY;
  for (int j = threadIdx.x; j <= query; j += kThreads) max = maximum(max, weights[j]);
  max = block_max(max);
  float total = 0;
  for (int j = threadIdx.x; j <= query; j += kThreads) {
    weights[j] = expf(weights[j] - max);
    total += weights[j];
  }
  total = block_sum(total);  // has a barrier: now others' weights can be read
  const int d = threadIdx.x % kWidth, part = threadIdx.x / kWidth;
  float sum = 0;
  for (int j = part; j <= query; j += kParts) sum += weights[j] * v[j * kWidth + d];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (part == 0) p.out[(head * p.tokens + query) * kWidth + d] = (sums[d] + sums[kWidth + d]) / total;
}

}  // namespace

void attention_fused(const Stream& stream, const LadderAttention& p) {
  const std::size_t bytes = static_cast<std::size_t>(p.tokens + kParts * kWidth) * sizeof(float);
  launch(fused, {dim3(static_cast<unsigned>(p.tokens), static_cast<unsigned>(p.heads)), kThreads, bytes},
         stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
