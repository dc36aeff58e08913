#include "kernels/common/kernel.h"
//
#include "kernels/ladders/attention/attention.h"

/// Rung 3: a block for 64 queries, and an online softmax.
///
/// A tile of keys and values is copied to shared memory, and 64 queries use it before the next one comes: a
/// 64th of the reads. A thread has one query with its result so far in registers. The softmax's maximum is
/// not known before the last key, so a thread keeps the maximum and sum so far, and multiplies sum and result
/// by exp(old maximum - new maximum) where a score is larger (rung 3 of the softmax ladder; Rabe and Staats,
/// "Self-attention does not need O(n^2) memory", 2021; Dao and others, "FlashAttention", 2022). So no row of
/// scores is kept anywhere, and any number of tokens will do.
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kWidth = kLadderHeadWidth;
constexpr int kQueries = 64;  // of a block, and its threads
constexpr int kKeys = 32;     // of a tile
constexpr float kScale = 0.125f;

__global__ void __launch_bounds__(kQueries) online(LadderAttention p) {
  __shared__ float keys[kKeys][kWidth], values[kKeys][kWidth];
  const int head_begins = blockIdx.y * p.tokens * kWidth;
  const int first = blockIdx.x * kQueries, query = first + threadIdx.x;
  const float* k = static_cast<const float*>(p.k) + head_begins;
  const float* v = static_cast<const float*>(p.v) + head_begins;
  float q[kWidth], out[kWidth] = {};
#pragma unroll
  for (int d = 0; d < kWidth; ++d) {
    q[d] = static_cast<const float*>(p.q)[head_begins + query * kWidth + d] * kScale;
  }
  float max = -INFINITY, sum = 0;
  for (int key = 0; key < first + kQueries; key += kKeys) {
    __syncthreads();
    for (int i = threadIdx.x; i < kKeys * kWidth; i += kQueries) {
      keys[i / kWidth][i % kWidth] = k[key * kWidth + i];
      values[i / kWidth][i % kWidth] = v[key * kWidth + i];
    }
    __syncthreads();
    const int visible = minimum(kKeys, query + 1 - key);
    for (int j = 0; j < visible; ++j) {
      float score = 0;
#pragma unroll
      for (int d = 0; d < kWidth; ++d) score += q[d] * keys[j][d];
      if (score > max) {
        const float factor = expf(max - score);  // exp(-inf) is 0: the first score starts the sum
        max = score;
        sum *= factor;
#pragma unroll
        for (int d = 0; d < kWidth; ++d) out[d] *= factor;
      }
      const float weight = expf(score - max);
      sum += weight;
#pragma unroll
      for (int d = 0; d < kWidth; ++d) out[d] += weight * values[j][d];
    }
  }
#pragma unroll
  for (int d = 0; d < kWidth; ++d) p.out[head_begins + query * kWidth + d] = out[d] / sum;
}

}  // namespace

void attention_online(const Stream& stream, const LadderAttention& p) {
  const dim3 blocks(static_cast<unsigned>(p.tokens / kQueries), static_cast<unsigned>(p.heads));
  launch(online, {blocks, kQueries}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
