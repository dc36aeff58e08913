#include "kernels/common/kernel.h"

#include <cmath>

#include "core/philox.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/softmax.h"

// For one or two queries, as in generation, there is a kernel of its own. Three kernels go through tiles: the
// forward, the backward for the queries and the backward for the keys and values. In the first two a block
// has a tile of queries and goes through the keys; in the third it has a tile of keys and goes through the
// queries. The products are in kernels/attention_tile.h.

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// One of the operands, by element type.
template <class T>
struct Operand {
  T* data;
  std::int64_t batch, token, head;
  explicit Operand(const AttentionOperand& from)
      : data(static_cast<T*>(from.data)), batch(from.batch), token(from.token), head(from.head) {}
  __device__ Tokens<T> of(std::int64_t b, std::int64_t h) const {
    return {data + b * batch + h * head, token};
  }
};

/// The mask of dropout (kernels/attention.h).
template <class A>
struct Dropout {
  std::uint64_t seed, counter, keys;
  std::uint32_t threshold;  // 0 without dropout
  A kept;                   // factor of what is not dropped

  explicit Dropout(const AttentionArgs& args)
      : seed(args.seed),
        counter(args.counter),
        keys(static_cast<std::uint64_t>(args.keys)),
        threshold(static_cast<std::uint32_t>(args.dropout * 4294967296.0)),
        kept(static_cast<A>(1 / (1 - args.dropout))) {}

  /// The words of the keys `key` to key + 3, for a multiple of 4.
  __device__ Philox4 words(std::int64_t head, std::int64_t query, std::int64_t key) const {
    const std::uint64_t row = static_cast<std::uint64_t>(head) * keys + static_cast<std::uint64_t>(query);
    return philox4x32_10(seed, counter, row * ((keys + 3) / 4) + static_cast<std::uint64_t>(key) / 4);
  }
};

/// AttentionArgs and AttentionGradients, by element type.
template <class T>
struct Problem {
  using A = accumulate_t<T>;
  std::int64_t batch, heads, kv_heads, queries, keys;
  int width;
  A scale;
  Operand<T> q, k, v, out;
  A* lse;
  Dropout<A> dropout;
  Operand<T> dout, dq, dk, dv;
  A* delta;
  bool accumulate;

  Problem(const AttentionArgs& args, const AttentionGradients& gradients)
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

  /// The keys before the first query.
  __device__ std::int64_t offset() const { return keys - queries; }
  __device__ std::int64_t heads_per_kv() const { return heads / kv_heads; }
  /// The first row of a head in lse and delta.
  __device__ std::int64_t first_row(std::int64_t b, std::int64_t h) const {
    return head_number(b, h) * queries;
  }
  __device__ std::int64_t head_number(std::int64_t b, std::int64_t h) const { return b * heads + h; }
};

/// The tokens first to first + count - 1 of a head, that a block computes.
struct Share {
  std::int64_t batch, head, first;
  int count;
};

/// The block's share of `tokens` tokens of `heads` heads. A later tile of queries sees more keys, so a grid
/// in plain order would give some workers more work than others. On the GPU, which starts blocks in order,
/// the longest come first; a CPU thread has neighbouring blocks, so short and long ones alternate.
template <class Tile>
__device__ Share share_of_block(std::int64_t tokens, std::int64_t heads, bool later_is_longer) {
  const std::int64_t tiles = ceil_div(tokens, Tile::tokens);
  const std::int64_t at = blockIdx.x % tiles, head = blockIdx.x / tiles;
  std::int64_t tile = later_is_longer ? tiles - 1 - at : at;
  if constexpr (!kGpuGeometry) tile = at % 2 == 0 ? at / 2 : tiles - 1 - at / 2;
  const std::int64_t first = tile * Tile::tokens;
  return {head / heads, head % heads, first,
          static_cast<int>(minimum<std::int64_t>(Tile::tokens, tokens - first))};
}

/// Which elements of `scores` a thread has outside of products: the columns first to first + kOwn - 1, and in
/// these every kParts-th group of four rows. On the CPU that is everything.
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

/// Makes the weights negative that dropout drops. The rows are the keys from `key` on and the columns the
/// queries from `query` on or, without kRowsAreKeys, the reverse; both `key` and the tile are multiples of 4.
template <class Tile, bool kRowsAreKeys, class A>
__device__ void mark_dropped(A* weights, int rows, const Dropout<A>& dropout, std::int64_t head,
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
      for (int r = row; r < row + 4; ++r) {
        A* const own = weights + r * Tile::column_stride;
        if constexpr (share.kOwn == 1) {
          const int word = share.first % 4;
          const Philox4 words = dropout.words(head, query + r, key + share.first - word);
          mark(own[share.first], word == 0 ? words.x : word == 1 ? words.y : word == 2 ? words.z : words.w);
        } else {
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

/// What a product of keys and queries does with its sums: scores, and -inf where masked(row, column).
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

// ---- forward ----

/// The online softmax of the columns of `scores`, tile after tile: each column's maximum and sum so far, and
/// the factor for what was added up with the maximum before.
template <class Tile>
class OnlineSoftmax {
  using A = typename Tile::Accumulator;
  static constexpr int kTokens = Tile::tokens;
  static constexpr int kOwn = ColumnShare<Tile>::kOwn;
  static constexpr int kParts = ColumnShare<Tile>::kParts;

 public:
  static constexpr int kElements = (3 + 2 * kParts) * kTokens;  // of shared memory

  __device__ explicit OnlineSoftmax(A* shared)
      : max_(shared),
        sum_(max_ + kTokens),
        factor_(sum_ + kTokens),
        part_max_(factor_ + kTokens),
        part_sum_(part_max_ + kParts * kTokens),
        column_(share_.first),
        part_(share_.part) {
    if (part_ != 0) return;
    for (int c = 0; c < kOwn; ++c) {
      max_[column_ + c] = kLowest<A>;
      sum_[column_ + c] = 0;
    }
  }

  /// Replaces the scores in `rows` rows by exp(score - maximum so far).
  __device__ void add(A* scores, int rows) {
    A max[kOwn], sum[kOwn] = {};
    for (int c = 0; c < kOwn; ++c) max[c] = max_[column_ + c];
    share_.for_each(scores, rows, [&](int, int column, const A& score) {
      A& largest = max[column - column_];
      largest = maximum(largest, score);
    });
    for (int c = 0; c < kOwn; ++c) part_max_[part_ * kTokens + column_ + c] = max[c];
    __syncthreads();
    for (int part = 0; part < kParts; ++part) {
      for (int c = 0; c < kOwn; ++c) max[c] = maximum(max[c], part_max_[part * kTokens + column_ + c]);
    }
    share_.for_each(scores, rows, [&](int, int column, A& score) {
      score = softmax_exp(score - max[column - column_]);
      sum[column - column_] += score;
    });
    for (int c = 0; c < kOwn; ++c) part_sum_[part_ * kTokens + column_ + c] = sum[c];
    __syncthreads();
    if (part_ != 0) return;
    for (int c = 0; c < kOwn; ++c) {
      const int column = column_ + c;
      factor_[column] = softmax_exp(max_[column] - max[c]);
      max_[column] = max[c];
      sum_[column] *= factor_[column];
      for (int part = 0; part < kParts; ++part) sum_[column] += part_sum_[part * kTokens + column];
    }
  }
  __device__ const A* factors() const { return factor_; }
  __device__ A sum(int column) const { return sum_[column]; }
  __device__ A log_sum(int column) const { return max_[column] + natural_log(sum_[column]); }

 private:
  A *max_, *sum_, *factor_, *part_max_, *part_sum_;
  ColumnShare<Tile> share_;
  int column_, part_;
};

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_forward(Problem<T> p) {
  using A = accumulate_t<T>;
  const Share share = share_of_block<Tile>(p.queries, p.heads, true);
  const std::int64_t kv_head = share.head / p.heads_per_kv();
  const Tokens<T> keys = p.k.of(share.batch, kv_head), values = p.v.of(share.batch, kv_head);

  const int column_elements = padded_width(p.width) * Tile::column_stride;
  A* const q_columns = dynamic_shared<A>();
  A* const out_columns = q_columns + column_elements;
  A* const scores = out_columns + column_elements;
  A* const rows = scores + Tile::tokens * Tile::column_stride;
  OnlineSoftmax<Tile> softmax(rows + Tile::tokens * row_stride(p.width));

  load_columns<Tile>(p.q.of(share.batch, share.head), share.first, share.count, p.width, q_columns);
  zero_columns<Tile>(out_columns, p.width);

  // The first query sees the keys up to `first_sees`, the last one those up to the end.
  const std::int64_t first_sees = share.first + p.offset();
  const std::int64_t end = first_sees + share.count;
  for (std::int64_t key = 0; key < end; key += Tile::tokens) {
    const int count = static_cast<int>(minimum<std::int64_t>(Tile::tokens, end - key));
    const int padded = padded_rows<Tile>(count);
    __syncthreads();
    load_rows<Tile>(keys, key, count, p.width, rows);
    __syncthreads();
    const int visible = static_cast<int>(first_sees - key);  // in column 0; in the next, one row more
    multiply<Tile, false>(
        rows, row_stride(p.width), q_columns, padded, padded_width(p.width),
        write_scores<Tile>(scores, p.scale, [=](int row, int column) { return row > visible + column; }));
    __syncthreads();
    softmax.add(scores, padded);
    if (p.dropout.threshold != 0) {
      mark_dropped<Tile, true>(scores, padded, p.dropout, p.head_number(share.batch, share.head), first_sees,
                               key);
      keep_weights<Tile>(scores, scores, padded, p.dropout.kept);
    }
    load_rows<Tile>(values, key, count, p.width, rows);
    __syncthreads();
    multiply<Tile, true>(rows, row_stride(p.width), scores, padded_width(p.width), padded,
                         [=](int row, int column, const auto& sums) {
                           A* const to = out_columns + row * Tile::column_stride + column;
                           auto total = load_vec<kLanes<A>>(to);
                           const auto factors = load_vec<kLanes<A>>(softmax.factors() + column);
                           for (int c = 0; c < kLanes<A>; ++c) total[c] = total[c] * factors[c] + sums[c];
                           store_vec(to, total);
                         });
  }
  __syncthreads();

  store_columns<Tile>(p.out.of(share.batch, share.head), share.first, share.count, p.width, out_columns,
                      false, [=](int column) { return 1 / softmax.sum(column); });
  A* const lse = p.lse + p.first_row(share.batch, share.head) + share.first;
  for (int i = thread_rank(); i < share.count; i += Tile::threads) lse[i] = softmax.log_sum(i);
}

// ---- forward of few queries ----

// With one new query and a cache of keys, nearly all columns of a tile would be empty. So a block computes
// one query of one head, and reads each key and each value once.
constexpr std::int64_t kFewQueries = 2;
constexpr int kQueryThreads = kGpuGeometry ? 128 : 1;
constexpr int kKeysAtOnce = 256;
// The threads that share a key, and those that share a value; each of these threads adds up some pieces of
// the values of every kValueParts-th key.
constexpr int kThreadsOfKey = kGpuGeometry ? 8 : 1;
constexpr int kThreadsOfValue = kGpuGeometry ? 16 : 1;
constexpr int kValueParts = kQueryThreads / kThreadsOfValue;

template <class T>
__global__ void __launch_bounds__(kQueryThreads) attention_forward_query(Problem<T> p) {
  using A = accumulate_t<T>;
  constexpr int kWidth = kTokenWidth<T>;
  constexpr int kPieces = static_cast<int>(kMostAttentionWidth) / (kThreadsOfValue * kWidth);
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
    max = block_max(max);  // and a barrier: now the scores can be read
    for (int i = rank; i < kKeysAtOnce; i += kQueryThreads) weights[i] = softmax_exp(weights[i] - max);
    for (int i = rank; i < kKeysAtOnce; i += kQueryThreads) added += weights[i];
    added = block_sum(added);  // and again: the weights
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

// ---- backward ----

/// delta = rowsum(dout * out). On the GPU 8 threads add up a row.
constexpr int kDeltaRows = 32;  // of a block
constexpr int kDeltaThreads = kGpuGeometry ? 8 : 1;

template <class T>
__global__ void attention_delta(Problem<T> p) {
  using A = accumulate_t<T>;
  constexpr int kWidth = kTokenWidth<T>;
  const std::int64_t rows = p.batch * p.heads * p.queries;
  for (int i = thread_rank() / kDeltaThreads; i < kDeltaRows; i += block_threads() / kDeltaThreads) {
    const std::int64_t row = std::int64_t{blockIdx.x} * kDeltaRows + i;
    Vec<A, kWidth> sums{};
    if (row < rows) {
      const std::int64_t head = row / p.queries, query = row % p.queries;
      const T* const out = p.out.of(head / p.heads, head % p.heads).at(query);
      const T* const dout = p.dout.of(head / p.heads, head % p.heads).at(query);
      for (int d = thread_rank() % kDeltaThreads * kWidth; d < p.width; d += kDeltaThreads * kWidth) {
        const auto a = read_piece_of<A>(out, d, p.width), b = read_piece_of<A>(dout, d, p.width);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sums[j] += a[j] * b[j];
      }
    }
    const A sum = sum_of_lanes<kDeltaThreads>(sums);
    if (row < rows && thread_rank() % kDeltaThreads == 0) p.delta[row] = sum;
  }
}

/// Reads a statistic of `count` tokens, with 0 for the rest of a tile.
template <class Tile, class A>
__device__ void load_stats(const A* from, int count, A* to) {
  for (int i = thread_rank(); i < Tile::tokens; i += Tile::threads) to[i] = i < count ? from[i] : 0;
}

/// Replaces scores by exp(score - lse_of(row, column)).
template <class Tile, class A, class Lse>
__device__ void to_weights(A* scores, int rows, const Lse& lse_of) {
  ColumnShare<Tile>().for_each(
      scores, rows, [=](int row, int column, A& score) { score = softmax_exp(score - lse_of(row, column)); });
}

/// What the product of values and gradients does with its sums dp: replaces marked weights by ds = scale *
/// weight * (m * dp - delta_of(row, column)).
template <class Tile, class A, class Delta>
__device__ auto write_gradient(A* scores, A scale, A kept, const Delta& delta_of) {
  return [=](int row, int column, const auto& sums) {
    A* const at = scores + row * Tile::column_stride + column;
    auto written = load_vec<kLanes<A>>(at);
    for (int c = 0; c < kLanes<A>; ++c) {
      const A weight = written[c], dp = weight < 0 ? 0 : kept * sums[c];
      written[c] = scale * (weight < 0 ? -weight : weight) * (dp - delta_of(row, column + c));
    }
    store_vec(at, written);
  };
}

/// `columns` += the sums of a product.
template <class Tile, class A>
__device__ auto add_to(A* columns) {
  return [=](int row, int column, const auto& sums) {
    A* const to = columns + row * Tile::column_stride + column;
    auto total = load_vec<kLanes<A>>(to);
    for (int c = 0; c < kLanes<A>; ++c) total[c] += sums[c];
    store_vec(to, total);
  };
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_backward_queries(Problem<T> p) {
  using A = accumulate_t<T>;
  const Share share = share_of_block<Tile>(p.queries, p.heads, true);
  const std::int64_t kv_head = share.head / p.heads_per_kv();
  const Tokens<T> keys = p.k.of(share.batch, kv_head), values = p.v.of(share.batch, kv_head);

  const int width = padded_width(p.width), stride = row_stride(p.width);
  const int column_elements = width * Tile::column_stride;
  A* const q_columns = dynamic_shared<A>();
  A* const dout_columns = q_columns + column_elements;
  A* const dq_columns = dout_columns + column_elements;
  A* const scores = dq_columns + column_elements;
  A* const rows = scores + Tile::tokens * Tile::column_stride;
  A* const lse = rows + Tile::tokens * stride;
  A* const delta = lse + Tile::tokens;

  load_columns<Tile>(p.q.of(share.batch, share.head), share.first, share.count, p.width, q_columns);
  load_columns<Tile>(p.dout.of(share.batch, share.head), share.first, share.count, p.width, dout_columns);
  zero_columns<Tile>(dq_columns, p.width);
  const std::int64_t first_row = p.first_row(share.batch, share.head) + share.first;
  load_stats<Tile>(p.lse + first_row, share.count, lse);
  load_stats<Tile>(p.delta + first_row, share.count, delta);

  const std::int64_t first_sees = share.first + p.offset();
  const std::int64_t end = first_sees + share.count;
  for (std::int64_t key = 0; key < end; key += Tile::tokens) {
    const int count = static_cast<int>(minimum<std::int64_t>(Tile::tokens, end - key));
    const int padded = padded_rows<Tile>(count);
    __syncthreads();
    load_rows<Tile>(keys, key, count, p.width, rows);
    __syncthreads();
    const int visible = static_cast<int>(first_sees - key);
    multiply<Tile, false>(
        rows, stride, q_columns, padded, width,
        write_scores<Tile>(scores, p.scale, [=](int row, int column) { return row > visible + column; }));
    __syncthreads();
    to_weights<Tile>(scores, padded, [=](int, int column) { return lse[column]; });
    mark_dropped<Tile, true>(scores, padded, p.dropout, p.head_number(share.batch, share.head), first_sees,
                             key);
    load_rows<Tile>(values, key, count, p.width, rows);
    __syncthreads();
    multiply<Tile, false>(rows, stride, dout_columns, padded, width,
                          write_gradient<Tile>(scores, p.scale, p.dropout.kept,
                                               [=](int, int column) { return delta[column]; }));
    __syncthreads();
    load_rows<Tile>(keys, key, count, p.width, rows);
    __syncthreads();
    multiply<Tile, true>(rows, stride, scores, width, padded, add_to<Tile>(dq_columns));
  }
  __syncthreads();
  store_columns<Tile>(p.dq.of(share.batch, share.head), share.first, share.count, p.width, dq_columns,
                      p.accumulate, [](int) { return A{1}; });
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_backward_keys(Problem<T> p) {
  using A = accumulate_t<T>;
  const Share share = share_of_block<Tile>(p.keys, p.kv_heads, false);

  const int width = padded_width(p.width), stride = row_stride(p.width);
  const int column_elements = width * Tile::column_stride;
  constexpr int kScoreElements = Tile::tokens * Tile::column_stride;
  A* const k_columns = dynamic_shared<A>();
  A* const v_columns = k_columns + column_elements;
  A* const dk_columns = v_columns + column_elements;
  A* const dv_columns = dk_columns + column_elements;
  A* const scores = dv_columns + column_elements;
  A* const weights = scores + kScoreElements;
  A* const rows = weights + kScoreElements;
  A* const lse = rows + Tile::tokens * stride;
  A* const delta = lse + Tile::tokens;

  load_columns<Tile>(p.k.of(share.batch, share.head), share.first, share.count, p.width, k_columns);
  load_columns<Tile>(p.v.of(share.batch, share.head), share.first, share.count, p.width, v_columns);
  zero_columns<Tile>(dk_columns, p.width);
  zero_columns<Tile>(dv_columns, p.width);

  // The first query that sees the first of these keys.
  const std::int64_t first_query = maximum<std::int64_t>(share.first - p.offset(), 0);
  for (std::int64_t h = 0; h < p.heads_per_kv(); ++h) {
    const std::int64_t head = share.head * p.heads_per_kv() + h;
    const Tokens<T> queries = p.q.of(share.batch, head), douts = p.dout.of(share.batch, head);
    const std::int64_t first_row = p.first_row(share.batch, head);
    for (std::int64_t query = first_query; query < p.queries; query += Tile::tokens) {
      const int count = static_cast<int>(minimum<std::int64_t>(Tile::tokens, p.queries - query));
      const int padded = padded_rows<Tile>(count);
      __syncthreads();
      load_rows<Tile>(queries, query, count, p.width, rows);
      load_stats<Tile>(p.lse + first_row + query, count, lse);
      load_stats<Tile>(p.delta + first_row + query, count, delta);
      __syncthreads();
      // In row 0; in the next, one column more. Rows that are no queries see none.
      const int visible = static_cast<int>(query + p.offset() - share.first);
      multiply<Tile, false>(rows, stride, k_columns, padded, width,
                            write_scores<Tile>(scores, p.scale, [=](int row, int column) {
                              return row >= count || column > visible + row;
                            }));
      __syncthreads();
      to_weights<Tile>(scores, padded, [=](int row, int) { return lse[row]; });
      mark_dropped<Tile, false>(scores, padded, p.dropout, p.head_number(share.batch, head),
                                query + p.offset(), share.first);
      keep_weights<Tile>(scores, weights, padded, p.dropout.kept);
      load_rows<Tile>(douts, query, count, p.width, rows);
      __syncthreads();
      multiply<Tile, false>(
          rows, stride, v_columns, padded, width,
          write_gradient<Tile>(scores, p.scale, p.dropout.kept, [=](int row, int) { return delta[row]; }));
      multiply<Tile, true>(rows, stride, weights, width, padded, add_to<Tile>(dv_columns));
      __syncthreads();
      load_rows<Tile>(queries, query, count, p.width, rows);
      __syncthreads();
      multiply<Tile, true>(rows, stride, scores, width, padded, add_to<Tile>(dk_columns));
    }
  }
  __syncthreads();
  const auto whole = [](int) { return A{1}; };
  store_columns<Tile>(p.dk.of(share.batch, share.head), share.first, share.count, p.width, dk_columns,
                      p.accumulate, whole);
  store_columns<Tile>(p.dv.of(share.batch, share.head), share.first, share.count, p.width, dv_columns,
                      p.accumulate, whole);
}

// ---- launches ----

/// What a block of compute capability 8.6 and 8.9 may have; others of 8.0 and later have more.
constexpr std::size_t kMostSharedBytes = 99 * 1024;

/// Shared memory of a kernel with so many `columns` and `scores`, one of `rows`, and some statistics.
template <class Tile>
std::size_t shared_bytes(int width, int columns, int scores, int stats) {
  return sizeof(typename Tile::Accumulator) *
         static_cast<std::size_t>((columns * padded_width(width) + scores * Tile::tokens) *
                                      Tile::column_stride +
                                  Tile::tokens * row_stride(width) + stats);
}

/// Calls body(tile, shared memory) with the largest tile that fits.
template <class A, class Body>
void with_tile(int width, int columns, int scores, const Body& body) {
  using Large = AttentionTile<A, 64, 4>;
  using Small = AttentionTile<A, 32, 2>;
  // The statistics of OnlineSoftmax, which are more than those of the backward.
  const auto bytes = [=](auto tile) {
    using Tile = decltype(tile);
    return shared_bytes<Tile>(width, columns, scores, OnlineSoftmax<Tile>::kElements);
  };
  if constexpr (kGpuGeometry) {
    if (bytes(Large{}) > kMostSharedBytes) return body(Small{}, bytes(Small{}));
  }
  body(Large{}, bytes(Large{}));
}

template <class Tile>
unsigned blocks(const AttentionArgs& args, std::int64_t tokens, std::int64_t heads) {
  return static_cast<unsigned>(args.batch * heads * ceil_div(tokens, Tile::tokens));
}

}  // namespace

void attention_forward(const Stream& stream, const AttentionArgs& args) {
  RINGTAPE_DISPATCH_FLOATING(args.dtype, T, {
    const Problem<T> problem(args, {});
    if (args.queries <= kFewQueries && args.dropout == 0) {
      const int width = padded_width(problem.width);
      const std::size_t shared =
          sizeof(accumulate_t<T>) * static_cast<std::size_t>((1 + kValueParts) * width + kKeysAtOnce);
      launch(attention_forward_query<T>,
             {static_cast<unsigned>(args.batch * args.heads * args.queries), kQueryThreads, shared}, stream,
             problem);
      return;
    }
    with_tile<accumulate_t<T>>(problem.width, 2, 1, [&](auto tile, std::size_t shared) {
      using Tile = decltype(tile);
      launch(attention_forward<T, Tile>,
             {blocks<Tile>(args, args.queries, args.heads), Tile::threads, shared}, stream, problem);
    });
  });
}

void attention_backward(const Stream& stream, const AttentionArgs& args,
                        const AttentionGradients& gradients) {
  RINGTAPE_DISPATCH_FLOATING(args.dtype, T, {
    const Problem<T> problem(args, gradients);
    const std::int64_t rows = args.batch * args.heads * args.queries;
    launch(
        attention_delta<T>,
        {static_cast<unsigned>(ceil_div(rows, kDeltaRows)), kGpuGeometry ? kDeltaRows * kDeltaThreads : 1u},
        stream, problem);
    with_tile<accumulate_t<T>>(problem.width, 3, 1, [&](auto tile, std::size_t shared) {
      using Tile = decltype(tile);
      launch(attention_backward_queries<T, Tile>,
             {blocks<Tile>(args, args.queries, args.heads), Tile::threads, shared}, stream, problem);
    });
    with_tile<accumulate_t<T>>(problem.width, 4, 2, [&](auto tile, std::size_t shared) {
      using Tile = decltype(tile);
      launch(attention_backward_keys<T, Tile>,
             {blocks<Tile>(args, args.keys, args.kv_heads), Tile::threads, shared}, stream, problem);
    });
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
