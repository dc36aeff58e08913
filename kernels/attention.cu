#include "kernels/common/kernel.h"

#include "kernels/attention_block.h"

// A block has a tile of queries and goes through the keys, tile by tile.

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// The online softmax of the columns of `scores`, tile after tile: each column's maximum and sum so far, and
/// the factor for what was added up under the previous maximum.
template <class Tile>
class OnlineSoftmax {
  using A = typename Tile::Accumulator;
  static constexpr int kTokens = Tile::tokens;
  static constexpr int kOwn = ColumnShare<Tile>::kOwn;
  static constexpr int kParts = ColumnShare<Tile>::kParts;

 public:
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

  /// Continues from the log-sum-exp of `count` columns.
  __device__ void resume(const A* lse, int count) {
    if (part_ != 0) return;
    for (int c = 0; c < kOwn; ++c) {
      if (column_ + c >= count) return;
      max_[column_ + c] = lse[column_ + c];
      sum_[column_ + c] = 1;
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

template <class T, class Tile, class Problem>
__device__ __forceinline__ void forward_of_queries(const Problem& p) {
  using A = accumulate_t<T>;
  const TokenShare share = share_of_block<Tile>(p.queries, p.heads, true);
  const std::int64_t kv_head = share.head / p.heads_per_kv();
  const Tokens<T> keys = p.k.of(share.batch, kv_head), values = p.v.of(share.batch, kv_head);

  const int column_elements = padded_width(p.width) * Tile::column_stride;
  A* const q_columns = dynamic_shared<A>();
  A* const out_columns = q_columns + column_elements;
  A* const scores = out_columns + column_elements;
  A* const rows = scores + Tile::tokens * Tile::column_stride;
  OnlineSoftmax<Tile> softmax(rows + Tile::tokens * row_stride(p.width));

  load_columns<Tile>(p.q.of(share.batch, share.head), share.first, share.count, p.width, q_columns);
  if (p.resumes) {
    load_columns<Tile>(p.out.of(share.batch, share.head), share.first, share.count, p.width, out_columns);
    softmax.resume(p.lse + p.first_row(share.batch, share.head) + share.first, share.count);
  } else {
    zero_columns<Tile>(out_columns, p.width);
  }

  // The first query sees the keys up to `first_sees`, the last query the keys before `end`.
  const std::int64_t first_sees = share.first + p.offset();
  const std::int64_t end = p.end_of_keys(first_sees + share.count);
  for (std::int64_t key = 0; key < end; key += Tile::tokens) {
    const int padded = write_scores_of_keys<Tile>(p, keys, key, end, first_sees, q_columns, scores, rows);
    softmax.add(scores, padded);
    if (p.dropout.threshold != 0) {
      mark_dropped<Tile, true>(scores, padded, p.dropout, p.dropout.head_number(share.batch, share.head),
                               p.query_in_mask(share.first, first_sees), p.key_in_mask(key));
      keep_weights<Tile>(scores, scores, padded, p.dropout.kept);
    }
    load_rows<Tile>(values, key, keys_of_tile<Tile>(key, end), p.width, rows);
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

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_forward(AttentionProblem<T> p) {
  forward_of_queries<T, Tile>(p);
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_forward_piece(AttentionPieceProblem<T> p) {
  forward_of_queries<T, Tile>(p);
}

}  // namespace

void attention_forward(const Stream& stream, const AttentionArgs& args) {
  if (args.queries <= kFewQueries && args.dropout == 0 && !args.piece.is_one)
    return attention_forward_few(stream, args);
  RINGTAPE_DISPATCH_FLOATING(args.dtype, T, {
    const AttentionPieceProblem<T> problem(args, {});
    with_tile<accumulate_t<T>>(problem.width, 2, 1, [&](auto tile, std::size_t shared) {
      using Tile = decltype(tile);
      const LaunchShape shape{blocks<Tile>(args, args.queries, args.heads), Tile::threads, shared};
      if (args.piece.is_one) {
        launch(attention_forward_piece<T, Tile>, shape, stream, problem);
      } else {
        launch(attention_forward<T, Tile>, shape, stream, problem);
      }
    });
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
