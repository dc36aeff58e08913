#include "kernels/common/kernel.h"
//
#include "kernels/common/math.h"
#include "kernels/ladders/attention/attention.h"

/// Rung 4: 16 bytes an instruction, four keys at a time.
///
/// A load reads four floats, from global and from shared memory: a quarter of the requests, which on rung 3
/// were one for every multiply-add. Four scores are summed at a time, so their additions do not wait for each
/// other, and the result is rescaled at most once for the four. exp is the cheaper form for arguments up to 0
/// (kernels/common/math.h).
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kWidth = kLadderHeadWidth;
constexpr int kQueries = 64;  // of a block, and its threads
constexpr int kKeys = 32;     // of a tile
constexpr float kScale = 0.125f;

__global__ void __launch_bounds__(kQueries) vectorised(LadderAttention p) {
  alignas(16) __shared__ float keys[kKeys][kWidth];
  alignas(16) __shared__ float values[kKeys][kWidth];
  const int head_begins = blockIdx.y * p.tokens * kWidth;
  const int first = blockIdx.x * kQueries, query = first + threadIdx.x;
  const float* k = static_cast<const float*>(p.k) + head_begins;
  const float* v = static_cast<const float*>(p.v) + head_begins;
  float q[kWidth], out[kWidth] = {};
#pragma unroll
  for (int d = 0; d < kWidth; d += 4) {
    const auto four = load_aligned<4>(static_cast<const float*>(p.q) + head_begins + query * kWidth + d);
#pragma unroll
    for (int i = 0; i < 4; ++i) q[d + i] = four[i] * kScale;
  }
  float max = -INFINITY, sum = 0;
  for (int key = 0; key < first + kQueries; key += kKeys) {
    __syncthreads();
    for (int i = 4 * threadIdx.x; i < kKeys * kWidth; i += 4 * kQueries) {
      store_aligned(&keys[i / kWidth][i % kWidth], load_aligned<4>(k + key * kWidth + i));
      store_aligned(&values[i / kWidth][i % kWidth], load_aligned<4>(v + key * kWidth + i));
    }
    __syncthreads();
    const int visible = minimum(kKeys, query + 1 - key);
    for (int j = 0; j < visible; j += 4) {
      float scores[4] = {};
#pragma unroll
      for (int d = 0; d < kWidth; d += 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const auto four = load_aligned<4>(&keys[j + i][d]);
#pragma unroll
          for (int e = 0; e < 4; ++e) scores[i] += q[d + e] * four[e];
        }
      }
      float largest = max;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (j + i >= visible) scores[i] = -INFINITY;
        largest = maximum(largest, scores[i]);
      }
      if (largest > max) {
        const float factor = softmax_exp(max - largest);
        max = largest;
        sum *= factor;
#pragma unroll
        for (int d = 0; d < kWidth; ++d) out[d] *= factor;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float weight = softmax_exp(scores[i] - max);
        sum += weight;
#pragma unroll
        for (int d = 0; d < kWidth; d += 4) {
          const auto four = load_aligned<4>(&values[j + i][d]);
#pragma unroll
          for (int e = 0; e < 4; ++e) out[d + e] += weight * four[e];
        }
      }
    }
  }
  const float inverse = 1 / sum;
#pragma unroll
  for (int d = 0; d < kWidth; d += 4) {
    store_aligned(
        p.out + head_begins + query * kWidth + d,
        Vec<float, 4>{{out[d] * inverse, out[d + 1] * inverse, out[d + 2] * inverse, out[d + 3] * inverse}});
  }
}

}  // namespace

void attention_vectorised(const Stream& stream, const LadderAttention& p) {
  const dim3 blocks(static_cast<unsigned>(p.tokens / kQueries), static_cast<unsigned>(p.heads));
  launch(vectorised, {blocks, kQueries}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
