#include "kernels/common/kernel.h"

#include "kernels/attention_block.h"

// With one new query and a cache of keys, nearly all columns of a tile would be empty. So a block computes
// one query of one head, and reads each key and each value once.

namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kQueryThreads = kGpuGeometry ? 128 : 1;
constexpr int kKeysAtOnce = 256;
// The numbers of threads that share a key, and that share a value. Each thread of the latter adds up some
// pieces of the values of every kValueParts-th key.
constexpr int kThreadsOfKey = kGpuGeometry ? 8 : 1;
constexpr int kThreadsOfValue = kGpuGeometry ? 16 : 1;
constexpr int kValueParts = kQueryThreads / kThreadsOfValue;

template <class T>
__global__ void __launch_bounds__(kQueryThreads) attention_forward_query(AttentionProblem<T> p) {
  using A = accumulate_t<T>;
  constexpr int kWidth = kTokenWidth<T>;
  constexpr int kPieces = static_cast<int>(kMaxAttentionWidth) / (kThreadsOfValue * kWidth);
  const int rank = thread_rank(), width = padded_width(p.width);
  const std::int64_t head = blockIdx.x / p.queries, query = blockIdx.x % p.queries;
  const std::int64_t batch = head / p.heads, kv_head = head % p.heads / p.heads_per_kv();
  const Tokens<T> keys = p.k.of(batch, kv_head), values = p.v.of(batch, kv_head);

  A* const q = dynamic_shared<A>();
  A* const weights = q + width;
  A* const parts = weights + kKeysAtOnce;  // [kValueParts, width]
  const T* const from = p.q.of(batch, head % p.heads).at(query);
  for (int d = rank; d < width; d += kQueryThreads) q[d] = d < p.width ? p.scale * to_accumulate(from[d]) : 0;

  A largest = kLowest<A>, sum = 0;
  Vec<A, kWidth> totals[kPieces] = {};
  const std::int64_t end = query + p.offset() + 1;
  for (std::int64_t key = 0; key < end; key += kKeysAtOnce) {
    const int count = static_cast<int>(minimum<std::int64_t>(kKeysAtOnce, end - key));
    __syncthreads();
    A max = largest, added = 0;
    for (int i = rank / kThreadsOfKey; i < kKeysAtOnce; i += kQueryThreads / kThreadsOfKey) {
      Vec<A, kWidth> sums{};
      if (i < count) {
        for (int d = rank % kThreadsOfKey * kWidth; d < width; d += kThreadsOfKey * kWidth) {
          const auto k = read_piece_of<A>(keys.at(key + i), d, p.width);
#pragma unroll
          for (int j = 0; j < kWidth; ++j) sums[j] += k[j] * q[d + j];
        }
      }
      const A total = sum_of_lanes<kThreadsOfKey>(sums);
      const A score = i < count ? total : -static_cast<A>(INFINITY);
      if (rank % kThreadsOfKey == 0) weights[i] = score;
      max = maximum(max, score);
    }
    max = block_max(max);  // has a barrier: now the scores can be read
    for (int i = rank; i < kKeysAtOnce; i += kQueryThreads) weights[i] = softmax_exp(weights[i] - max);
    for (int i = rank; i < kKeysAtOnce; i += kQueryThreads) added += weights[i];
    added = block_sum(added);  // has a barrier: now the weights can be read
    const A factor = softmax_exp(largest - max);
    sum = sum * factor + added;
    largest = max;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) totals[piece][j] *= factor;
    }
    for (int i = rank / kThreadsOfValue; i < count; i += kValueParts) {
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int d = (piece * kThreadsOfValue + rank % kThreadsOfValue) * kWidth;
        if (d >= width) break;
        const auto v = read_piece_of<A>(values.at(key + i), d, p.width);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) totals[piece][j] += weights[i] * v[j];
      }
    }
  }
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const int d = (piece * kThreadsOfValue + rank % kThreadsOfValue) * kWidth;
    if (d < width) store_vec(parts + rank / kThreadsOfValue * width + d, totals[piece]);
  }
  __syncthreads();
  T* const to = p.out.of(batch, head % p.heads).at(query);
  for (int d = rank; d < p.width; d += kQueryThreads) {
    A total = 0;
    for (int part = 0; part < kValueParts; ++part) total += parts[part * width + d];
    to[d] = from_accumulate<T>(total / sum);
  }
  if (rank == 0) p.lse[blockIdx.x] = largest + natural_log(sum);
}

}  // namespace

void attention_forward_few(const Stream& stream, const AttentionArgs& args) {
  RINGTAPE_DISPATCH_FLOATING(args.dtype, T, {
    const AttentionProblem<T> problem(args, {});
    const int width = padded_width(problem.width);
    const std::size_t shared =
        sizeof(accumulate_t<T>) * static_cast<std::size_t>((1 + kValueParts) * width + kKeysAtOnce);
    launch(attention_forward_query<T>,
           {static_cast<unsigned>(args.batch * args.heads * args.queries), kQueryThreads, shared}, stream,
           problem);
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
