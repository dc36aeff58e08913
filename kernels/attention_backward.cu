#include "kernels/common/kernel.h"

#include "kernels/attention_block.h"

// For dq a block has a tile of queries and goes through the keys; for dk and dv it has a tile of keys and
// goes through the queries.

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// delta = rowsum(dout * out). On the GPU 8 threads add up a row.
constexpr int kDeltaRows = 32;  // of a block
constexpr int kDeltaThreads = kGpuGeometry ? 8 : 1;

template <class T>
__global__ void attention_delta(AttentionProblem<T> p) {
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

/// For the product of values and gradients, whose sums are dp: replaces marked weights by ds = scale * weight
/// * (m * dp - delta_of(row, column)).
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

template <class T, class Tile, class Problem>
__device__ __forceinline__ void backward_of_queries(const Problem& p) {
  using A = accumulate_t<T>;
  const TokenShare share = share_of_block<Tile>(p.queries, p.heads, true);
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
  const std::int64_t end = p.end_of_keys(first_sees + share.count);
  for (std::int64_t key = 0; key < end; key += Tile::tokens) {
    const int count = keys_of_tile<Tile>(key, end);
    const int padded = write_scores_of_keys<Tile>(p, keys, key, end, first_sees, q_columns, scores, rows);
    to_weights<Tile>(scores, padded, [=](int, int column) { return lse[column]; });
    mark_dropped<Tile, true>(scores, padded, p.dropout, p.dropout.head_number(share.batch, share.head),
                             p.query_in_mask(share.first, first_sees), p.key_in_mask(key));
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

template <class T, class Tile, class Problem>
__device__ __forceinline__ void backward_of_keys(const Problem& p) {
  using A = accumulate_t<T>;
  const TokenShare share = share_of_block<Tile>(p.keys, p.kv_heads, false);

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
      // The last column that row 0 sees; each further row sees one more. Rows that are no queries see none.
      const int visible = static_cast<int>(query + p.offset() - share.first);
      multiply<Tile, false>(rows, stride, k_columns, padded, width,
                            write_scores<Tile>(scores, p.scale, [=](int row, int column) {
                              return row >= count || column > visible + row;
                            }));
      __syncthreads();
      to_weights<Tile>(scores, padded, [=](int row, int) { return lse[row]; });
      mark_dropped<Tile, false>(scores, padded, p.dropout, p.dropout.head_number(share.batch, head),
                                p.query_in_mask(query, query + p.offset()), p.key_in_mask(share.first));
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

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_backward_queries(AttentionProblem<T> p) {
  backward_of_queries<T, Tile>(p);
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_backward_keys(AttentionProblem<T> p) {
  backward_of_keys<T, Tile>(p);
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_backward_queries_piece(AttentionPieceProblem<T> p) {
  backward_of_queries<T, Tile>(p);
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    attention_backward_keys_piece(AttentionPieceProblem<T> p) {
  backward_of_keys<T, Tile>(p);
}

}  // namespace

void attention_backward(const Stream& stream, const AttentionArgs& args,
                        const AttentionGradients& gradients) {
  RINGTAPE_DISPATCH_FLOATING(args.dtype, T, {
    const AttentionPieceProblem<T> problem(args, gradients);
    const std::int64_t rows = args.batch * args.heads * args.queries;
    launch(
        attention_delta<T>,
        {static_cast<unsigned>(ceil_div(rows, kDeltaRows)), kGpuGeometry ? kDeltaRows * kDeltaThreads : 1u},
        stream, problem);
    with_tile<accumulate_t<T>>(problem.width, 3, 1, [&](auto tile, std::size_t shared) {
      using Tile = decltype(tile);
      const LaunchShape shape{blocks<Tile>(args, args.queries, args.heads), Tile::threads, shared};
      if (args.piece.is_one) {
        launch(attention_backward_queries_piece<T, Tile>, shape, stream, problem);
      } else {
        launch(attention_backward_queries<T, Tile>, shape, stream, problem);
      }
    });
    with_tile<accumulate_t<T>>(problem.width, 4, 2, [&](auto tile, std::size_t shared) {
      using Tile = decltype(tile);
      const LaunchShape shape{blocks<Tile>(args, args.keys, args.kv_heads), Tile::threads, shared};
      if (args.piece.is_one) {
        launch(attention_backward_keys_piece<T, Tile>, shape, stream, problem);
      } else {
        launch(attention_backward_keys<T, Tile>, shape, stream, problem);
      }
    });
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
