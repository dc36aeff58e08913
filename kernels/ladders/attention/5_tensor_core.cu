#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/common/math.h"
#include "kernels/common/tensor_core.h"
#include "kernels/ladders/attention/attention.h"

/// Rung 5: both products on the tensor cores.
///
/// q, k and v are bf16, sums and softmax f32. A warp has 16 queries; the scores of a tile of 64 keys are 4 x
/// 8 mma instructions. The elements that an mma leaves in a lane's registers are those that the next mma
/// needs there as its left operand (rows lane / 4 and lane / 4 + 8; of every eight columns two neighbours),
/// so the weights go from the first product to the second without shared memory: converted to bf16, two to a
/// register. A row is spread over four lanes, and two shuffles find its maximum (Dao, "FlashAttention-2",
/// 2023).
///
/// The next tile is copied by cp.async while this one is multiplied (rung 7 of the GEMM ladder), and the
/// 16-byte pieces of a row are permuted so that ldmatrix has no bank conflicts (rung 9 there).
namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kWidth = kLadderHeadWidth;
constexpr int kTile = 64;  // queries of a block, and keys of a tile
constexpr int kThreads = 128;
constexpr int kPieces = kTile * kWidth / 8;  // of 16 bytes, in a tile
constexpr int kSteps = kWidth / 16;          // of an mma along a head's elements, or along the keys
constexpr int kColumns = kTile / 8;          // of an mma's results
constexpr float kScale = 0.125f;

struct Tile {
  alignas(128) bfloat16 rows[kTile][kWidth];
  /// The eight elements of `row` from `column` on.
  __device__ bfloat16* piece(int row, int column) { return &rows[row][(column / 8 ^ row % 8) * 8]; }
};

__device__ __forceinline__ void begin_copies(const bfloat16* from, Tile& to, AsyncCopies& copies) {
#pragma unroll
  for (int i = threadIdx.x; i < kPieces; i += kThreads) {
    copies.copy(to.piece(i / (kWidth / 8), i % (kWidth / 8) * 8), from + i * 8);
  }
}

/// Two floats as bf16, the first in the low half.
__device__ __forceinline__ unsigned pack(float low, float high) {
  return to_bfloat16(low).bits | static_cast<unsigned>(to_bfloat16(high).bits) << 16;
}

/// The maximum and the sum over the four lanes that share a row.
__device__ __forceinline__ float max_of_row(float value) {
  value = maximum(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return maximum(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ __forceinline__ float sum_of_row(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

__global__ void __launch_bounds__(kThreads) tensor_core(LadderAttention p) {
  __shared__ Tile queries, keys[2], values[2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int last = blockIdx.x;  // the last tile of keys that the queries see
  const int head_begins = blockIdx.y * p.tokens * kWidth;
  const bfloat16* k = static_cast<const bfloat16*>(p.k) + head_begins;
  const bfloat16* v = static_cast<const bfloat16*>(p.v) + head_begins;

  AsyncCopies copies;
  begin_copies(static_cast<const bfloat16*>(p.q) + head_begins + last * kTile * kWidth, queries, copies);
  begin_copies(k, keys[0], copies);
  begin_copies(v, values[0], copies);
  copies.commit();

  unsigned q[kSteps][4];
  // Four elements for each 8 columns: two of row lane / 4, two of row lane / 4 + 8.
  float out[kColumns][4] = {};
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  for (int tile = 0; tile <= last; ++tile) {
    copies.wait<0>();
    __syncthreads();
    if (tile == 0) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        load_matrices(queries.piece(16 * warp + lane % 16, 16 * s + lane / 16 * 8), q[s]);
      }
    }
    if (tile < last) {
      begin_copies(k + (tile + 1) * kTile * kWidth, keys[(tile + 1) % 2], copies);
      begin_copies(v + (tile + 1) * kTile * kWidth, values[(tile + 1) % 2], copies);
      copies.commit();
    }

    float scores[kColumns][4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int c = 0; c < kColumns; c += 2) {
        // Two products' worth of keys: their rows are the columns of the right operand.
        unsigned b[4];
        load_matrices(keys[tile % 2].piece(8 * c + lane / 16 * 8 + lane % 8, 16 * s + lane / 8 % 2 * 8), b);
        multiply_matrices(scores[c], q[s], {b[0], b[1]});
        multiply_matrices(scores[c + 1], q[s], {b[2], b[3]});
      }
    }

    float largest[2] = {max[0], max[1]};
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * warp + lane / 4 + i / 2 * 8, column = 8 * c + lane % 4 * 2 + i % 2;
        scores[c][i] = tile == last && column > row ? -INFINITY : scores[c][i] * kScale;
        largest[i / 2] = maximum(largest[i / 2], scores[c][i]);
      }
    }
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[half] = max_of_row(largest[half]);
      factor[half] = softmax_exp(max[half] - largest[half]);
      max[half] = largest[half];
      sum[half] *= factor[half];
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[c][i] = softmax_exp(scores[c][i] - max[i / 2]);
        sum[i / 2] += scores[c][i];
        out[c][i] *= factor[i / 2];
      }
    }

#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const float(&left)[4] = scores[2 * s];
      const float(&right)[4] = scores[2 * s + 1];
      const unsigned weights[4] = {pack(left[0], left[1]), pack(left[2], left[3]), pack(right[0], right[1]),
                                   pack(right[2], right[3])};
#pragma unroll
      for (int c = 0; c < kColumns; c += 2) {
        unsigned b[4];
        load_matrices<true>(values[tile % 2].piece(16 * s + lane % 16, 8 * c + lane / 16 * 8), b);
        multiply_matrices(out[c], weights, {b[0], b[1]});
        multiply_matrices(out[c + 1], weights, {b[2], b[3]});
      }
    }
  }

  float* to = p.out + head_begins + (last * kTile + 16 * warp + lane / 4) * kWidth + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float inverse = 1 / sum_of_row(sum[half]);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      store_aligned(to + 8 * half * kWidth + 8 * c,
                    Vec<float, 2>{{out[c][2 * half] * inverse, out[c][2 * half + 1] * inverse}});
    }
  }
}

}  // namespace

void attention_tensor_core(const Stream& stream, const LadderAttention& p) {
  const dim3 blocks(static_cast<unsigned>(p.tokens / kTile), static_cast<unsigned>(p.heads));
  launch(tensor_core, {blocks, kThreads}, stream, p);
}

}  // namespace ringtape::RINGTAPE_TARGET
