#pragma once

#include "kernels/common/kernel.h"

#include <cmath>

#include "core/philox.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/softmax.h"

/// Shared by the attention kernels: their arguments by element type, a block's share of the tokens, the
/// dropout mask, the scores of a tile of keys, and the choice of the tile. attention.cu has the forward,
/// attention_query.cu the forward of few queries, attention_backward.cu the backward.
namespace ringtape::RINGTAPE_TARGET {

/// An operand, by element type.
template <class T>
struct AttentionInput {
  T* data;
  std::int64_t batch, token, head;
  explicit AttentionInput(const AttentionOperand& from)
      : data(static_cast<T*>(from.data)), batch(from.batch), token(from.token), head(from.head) {}
  __device__ Tokens<T> of(std::int64_t b, std::int64_t h) const {
    return {data + b * batch + h * head, token};
  }
};

/// The mask of dropout (kernels/attention.h).
template <class A>
struct AttentionDropout {
  std::uint64_t seed, counter, keys;
  std::int64_t mask_heads, first_mask_head;
  std::uint32_t threshold;  // 0 without dropout
  A kept;                   // factor of the weights that are not dropped

  explicit AttentionDropout(const AttentionArgs& args)
      : seed(args.seed),
        counter(args.counter),
        keys(static_cast<std::uint64_t>(args.piece.is_one ? args.piece.tokens : args.keys)),
        mask_heads(args.mask_heads > 0 ? args.mask_heads : args.heads),
        first_mask_head(args.first_mask_head),
        threshold(static_cast<std::uint32_t>(args.dropout * 4294967296.0)),
        kept(static_cast<A>(1 / (1 - args.dropout))) {}

  /// The number of a head among all heads that have masks.
  __device__ std::int64_t head_number(std::int64_t b, std::int64_t h) const {
    return b * mask_heads + first_mask_head + h;
  }
  /// The words of the keys `key` to key + 3; `key` is a multiple of 4.
  __device__ Philox4 words(std::int64_t head, std::int64_t query, std::int64_t key) const {
    const std::uint64_t row = static_cast<std::uint64_t>(head) * keys + static_cast<std::uint64_t>(query);
    return philox4x32_10(seed, counter, row * (ceil_div(keys, 4)) + static_cast<std::uint64_t>(key) / 4);
  }
};

/// AttentionArgs and AttentionGradients, by element type.
template <class T>
struct AttentionProblem {
  using A = accumulate_t<T>;
  std::int64_t batch, heads, kv_heads, queries, keys;
  int width;
  A scale;
  AttentionInput<T> q, k, v, out;
  A* lse;
  AttentionDropout<A> dropout;
  AttentionInput<T> dout, dq, dk, dv;
  A* delta;
  bool accumulate;

  AttentionProblem(const AttentionArgs& args, const AttentionGradients& gradients)
      : batch(args.batch),
        heads(args.heads),
        kv_heads(args.kv_heads),
        queries(args.queries),
        keys(args.keys),
        width(static_cast<int>(args.width)),
        scale(static_cast<A>(args.scale)),
        q(args.q),
        k(args.k),
        v(args.v),
        out(args.out),
        lse(static_cast<A*>(args.lse)),
        dropout(args),
        dout(gradients.dout),
        dq(gradients.dq),
        dk(gradients.dk),
        dv(gradients.dv),
        delta(static_cast<A*>(gradients.delta)),
        accumulate(gradients.accumulate) {}

  /// Query i sees the keys j <= i + offset(). Here offset() is the number of keys before the first query.
  __device__ std::int64_t offset() const { return keys - queries; }
  /// `end`, or the number of keys if that is smaller.
  __device__ std::int64_t end_of_keys(std::int64_t end) const { return end; }
  /// Whether key `row` of a tile of `count` keys is hidden from a query that sees the tile up to `visible`.
  __device__ static bool masked(int row, int visible, int /*count*/) { return row > visible; }
  /// Whether out and lse hold the results of other keys.
  static constexpr bool resumes = false;
  /// The positions in the dropout mask of query `query`, which sees the keys up to `sees`, and of key `key`.
  __device__ std::int64_t query_in_mask(std::int64_t /*query*/, std::int64_t sees) const { return sees; }
  __device__ std::int64_t key_in_mask(std::int64_t key) const { return key; }
  __device__ std::int64_t heads_per_kv() const { return heads / kv_heads; }
  /// The first row of a head in lse and delta.
  __device__ std::int64_t first_row(std::int64_t b, std::int64_t h) const {
    return (b * heads + h) * queries;
  }
};

/// The same for a piece of the keys (kernels/attention.h), with separate kernels: its checks would cost the
/// other kernels registers.
template <class T>
struct AttentionPieceProblem : AttentionProblem<T> {
  std::int64_t sees_after, first_query, first_key;
  bool resumes;

  AttentionPieceProblem(const AttentionArgs& args, const AttentionGradients& gradients)
      : AttentionProblem<T>(args, gradients),
        sees_after(args.piece.causal ? 0 : args.keys),
        first_query(args.piece.first_query),
        first_key(args.piece.first_key),
        resumes(args.piece.resumes) {}

  __device__ std::int64_t offset() const { return sees_after; }
  __device__ std::int64_t end_of_keys(std::int64_t end) const { return minimum(end, this->keys); }
  __device__ static bool masked(int row, int visible, int count) { return row > minimum(visible, count - 1); }
  __device__ std::int64_t query_in_mask(std::int64_t query, std::int64_t) const {
    return first_query + query;
  }
  __device__ std::int64_t key_in_mask(std::int64_t key) const { return first_key + key; }
};

/// The tokens first to first + count - 1 of a head, that a block computes.
struct TokenShare {
  std::int64_t batch, head, first;
  int count;
};

/// The block's share of `tokens` tokens of `heads` heads. A later tile of queries sees more keys, so a grid
/// in plain order would give some workers more work than others. On the GPU, which starts blocks in order,
/// the longest come first; a CPU thread has neighbouring blocks, so short and long ones alternate.
template <class Tile>
__device__ TokenShare share_of_block(std::int64_t tokens, std::int64_t heads, bool later_is_longer) {
  const std::int64_t tiles = ceil_div(tokens, Tile::tokens);
  const std::int64_t at = blockIdx.x % tiles, head = blockIdx.x / tiles;
  std::int64_t tile = later_is_longer ? tiles - 1 - at : at;
  if constexpr (!kGpuGeometry) tile = at % 2 == 0 ? at / 2 : tiles - 1 - at / 2;
  const std::int64_t first = tile * Tile::tokens;
  return {head / heads, head % heads, first,
          static_cast<int>(minimum<std::int64_t>(Tile::tokens, tokens - first))};
}

/// The elements of `scores` that a thread has outside of products: the columns first to first + kOwn - 1, and
/// in them every kParts-th group of four rows. On the CPU these are all elements.
template <class Tile>
struct ColumnShare {
  static constexpr int kOwn = kGpuGeometry ? 1 : Tile::tokens;
  static constexpr int kParts = Tile::threads * kOwn / Tile::tokens;
  int first = thread_rank() * kOwn % Tile::tokens;
  int part = thread_rank() * kOwn / Tile::tokens;

  /// Calls body(row) for the first row of each of the thread's groups, out of `rows` rows.
  template <class Body>
  __device__ __forceinline__ void for_each_group(int rows, const Body& body) const {
    for (int row = 4 * part; row < rows; row += 4 * kParts) body(row);
  }
  /// Calls body(row, column, element) for all elements of the thread, the columns in the inner loop.
  template <class A, class Body>
  __device__ __forceinline__ void for_each(A* scores, int rows, const Body& body) const {
    for_each_group(rows, [&](int group) {
      for (int row = group; row < group + 4; ++row) {
        A* const own = scores + row * Tile::column_stride;
        for (int c = first; c < first + kOwn; ++c) body(row, c, own[c]);
      }
    });
  }
};

/// Makes the weights that dropout drops negative. The rows are the keys from `key` on and the columns the
/// queries from `query` on or, without kRowsAreKeys, the reverse; `key` and the tile are multiples of 4.
template <class Tile, bool kRowsAreKeys, class A>
__device__ void mark_dropped(A* weights, int rows, const AttentionDropout<A>& dropout, std::int64_t head,
                             std::int64_t query, std::int64_t key) {
  if (dropout.threshold == 0) return;
  const ColumnShare<Tile> share;
  const auto mark = [=](A& weight, std::uint32_t word) {
    weight = word < dropout.threshold ? -weight : weight;
  };
  share.for_each_group(rows, [&](int row) {
    if constexpr (kRowsAreKeys) {
      for (int c = share.first; c < share.first + share.kOwn; ++c) {
        const Philox4 words = dropout.words(head, query + c, key + row);
        A* const own = weights + row * Tile::column_stride + c;
        mark(own[0], words.x);
        mark(own[Tile::column_stride], words.y);
        mark(own[2 * Tile::column_stride], words.z);
        mark(own[3 * Tile::column_stride], words.w);
      }
    } else {
      if constexpr (share.kOwn == 1) {
        // The words of four neighbouring keys of a row come from one Philox call. Each of their four lanes
        // makes the call for one of the four rows, and the lanes exchange the words.
        const int word = share.first % 4;
        const Philox4 drawn = dropout.words(head, query + row + word, key + share.first - word);
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          const int other = word ^ step;
          const std::uint32_t sent = other == 0   ? drawn.x
                                     : other == 1 ? drawn.y
                                     : other == 2 ? drawn.z
                                                  : drawn.w;
          mark(weights[(row + other) * Tile::column_stride + share.first],
               __shfl_xor_sync(0xffffffffu, sent, step));
        }
      } else {
        for (int r = row; r < row + 4; ++r) {
          A* const own = weights + r * Tile::column_stride;
          for (int c = 0; c < share.kOwn; c += 4) {
            const Philox4 words = dropout.words(head, query + r, key + c);
            mark(own[c], words.x);
            mark(own[c + 1], words.y);
            mark(own[c + 2], words.z);
            mark(own[c + 3], words.w);
          }
        }
      }
    }
  });
}

/// kept = m * weight (kernels/attention.h), for weights marked by mark_dropped(); `kept` may be `weights`.
template <class Tile, class A>
__device__ void keep_weights(A* weights, A* kept, int rows, A factor) {
  ColumnShare<Tile>().for_each(weights, rows, [=](int row, int column, const A& weight) {
    kept[row * Tile::column_stride + column] = weight < 0 ? 0 : weight * factor;
  });
}

/// For a product of keys and queries: writes its sums as scores, and -inf where masked(row, column).
template <class Tile, class A, class Masked>
__device__ auto write_scores(A* scores, A scale, const Masked& masked) {
  return [=](int row, int column, const auto& sums) {
    Vec<A, kLanes<A>> written;
    for (int c = 0; c < kLanes<A>; ++c) {
      written[c] = masked(row, column + c) ? -static_cast<A>(INFINITY) : sums[c] * scale;
    }
    store_vec(scores + row * Tile::column_stride + column, written);
  };
}

/// The sum of all lanes of `values` in kThreads neighbouring threads of a warp, all of which must call this.
template <int kThreads, class A, int W>
__device__ A sum_of_lanes(Vec<A, W> values) {
#pragma unroll
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) values[i] += values[i + half];
  }
  A sum = values[0];
  for (int step = kThreads / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

/// The number of keys in the tile that starts at `key`, up to `end`.
template <class Tile>
__device__ int keys_of_tile(std::int64_t key, std::int64_t end) {
  return static_cast<int>(minimum<std::int64_t>(Tile::tokens, end - key));
}

/// Reads the tile of keys from `key` on, up to `end`, into `rows`, and writes the scores with the queries in
/// `q_columns`: the first query sees the keys up to `first_sees`, each further one a key more. Returns the
/// rows of scores. Called by all threads of the block; it begins and ends with a barrier.
template <class Tile, class Problem, class T, class A>
__device__ __forceinline__ int write_scores_of_keys(const Problem& p, const Tokens<T>& keys, std::int64_t key,
                                                    std::int64_t end, std::int64_t first_sees,
                                                    const A* q_columns, A* scores, A* rows) {
  const int count = keys_of_tile<Tile>(key, end);
  const int padded = padded_rows<Tile>(count);
  __syncthreads();
  load_rows<Tile>(keys, key, count, p.width, rows);
  __syncthreads();
  const int visible = static_cast<int>(first_sees - key);  // of column 0; each next column sees a row more
  multiply<Tile, false>(rows, row_stride(p.width), q_columns, padded, padded_width(p.width),
                        write_scores<Tile>(scores, p.scale, [=](int row, int column) {
                          return Problem::masked(row, visible + column, count);
                        }));
  __syncthreads();
  return padded;
}

/// Elements of shared memory for a tile's statistics: of OnlineSoftmax, which has more of them than the
/// backward.
template <class Tile>
inline constexpr int kStatElements = (3 + 2 * ColumnShare<Tile>::kParts) * Tile::tokens;

/// The least limit of shared memory per block from compute capability 8.0 on: of 8.6, 8.9 and 12.x.
inline constexpr std::size_t kMaxSharedBytes = 99 * 1024;

/// Bytes of shared memory of a kernel with `columns` and `scores` tiles, one of `rows`, and `stats` elements.
template <class Tile>
std::size_t shared_bytes(int width, int columns, int scores, int stats) {
  return sizeof(typename Tile::Accumulator) *
         static_cast<std::size_t>((columns * padded_width(width) + scores * Tile::tokens) *
                                      Tile::column_stride +
                                  Tile::tokens * row_stride(width) + stats);
}

/// Calls body(tile, bytes of shared memory) with the largest tile that fits.
template <class A, class Body>
void with_tile(int width, int columns, int scores, const Body& body) {
  using Large = AttentionTile<A, 64, 4>;
  using Small = AttentionTile<A, 32, 2>;
  const auto bytes = [=](auto tile) {
    using Tile = decltype(tile);
    return shared_bytes<Tile>(width, columns, scores, kStatElements<Tile>);
  };
  if constexpr (kGpuGeometry) {
    if (bytes(Large{}) > kMaxSharedBytes) return body(Small{}, bytes(Small{}));
  }
  body(Large{}, bytes(Large{}));
}

template <class Tile>
unsigned blocks(const AttentionArgs& args, std::int64_t tokens, std::int64_t heads) {
  return static_cast<unsigned>(args.batch * heads * ceil_div(tokens, Tile::tokens));
}

}  // namespace ringtape::RINGTAPE_TARGET
