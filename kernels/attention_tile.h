#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/register_row.h"
#include "kernels/common/store_result.h"

/// Tiles of tokens in shared memory and their products, the parts of attention (kernels/attention.cu).
///
/// The tokens that a block computes are the columns of its tiles, the tokens that it goes through are rows.
/// So there are three forms: `columns` [width, tokens], the block's own tokens, transposed; `rows` [tokens,
/// width]; and `scores` [tokens, tokens], a row for each token gone through. Then both products that
/// attention needs, rows * columns (scores) and rows^T * scores (sums over the tokens gone through), have a
/// right operand whose neighbours in memory are neighbouring tokens of the block, and statistics of a token
/// are a column's: the CPU computes them for a vector register of tokens at once.
namespace ringtape::RINGTAPE_TARGET {

/// The sizes of a block: tiles of `Tokens` tokens, and a thread's part of a product, ThreadRows rows by
/// thread_columns columns. On the CPU one thread computes a block.
template <class A, int Tokens, int ThreadRows>
struct AttentionTile {
  using Accumulator = A;
  static constexpr int tokens = Tokens;
  static constexpr int thread_rows = ThreadRows;
  static constexpr int thread_columns = kGpuGeometry ? 4 : (kRowBytes == 64 ? 4 : 2) * kLanes<A>;
  static constexpr int threads = kGpuGeometry ? Tokens * Tokens / (ThreadRows * thread_columns) : 1;
  static constexpr int blocks_per_multiprocessor = 512 / threads;  // leaves each thread 128 registers

  /// Elements from one row to the next of `columns` and `scores`. The padding halves the bank conflicts of
  /// transposing stores.
  static constexpr int column_stride = Tokens + kLanes<A>;
};

/// A head's width in tiles: padded with zeros to a multiple of 16.
RINGTAPE_HOST_DEVICE constexpr int padded_width(int width) {
  return static_cast<int>(ceil_div<std::int64_t>(width, 16)) * 16;
}
/// Elements from one row to the next of `rows`: four neighbouring rows begin at different banks.
RINGTAPE_HOST_DEVICE constexpr int row_stride(int width) {
  return padded_width(width) + 4;
}
/// Rows of a product are computed in groups; rows beyond the last token are 0.
template <class Tile>
RINGTAPE_HOST_DEVICE constexpr int padded_rows(int count) {
  return static_cast<int>(ceil_div<std::int64_t>(count, 4)) * 4;
}

/// Tokens of one head: token i begins at data + i * stride.
template <class T>
struct Tokens {
  T* data;
  std::int64_t stride;
  __device__ T* at(std::int64_t token) const { return data + token * stride; }
};

/// Neighbouring elements of a token that are read or written together.
template <class T>
inline constexpr int kTokenWidth = kGpuGeometry ? kVecLanes<T> : 16;

/// Calls body(token, d) for the first of each kTokenWidth<T> elements of `tokens` tokens. Neighbouring
/// threads have neighbouring elements.
template <class Tile, class T, class Body>
__device__ __forceinline__ void for_each_piece(int tokens, int width, const Body& body) {
  constexpr int kAcross = kGpuGeometry ? 8 : 1;  // threads for each token
  for (int token = thread_rank() / kAcross; token < tokens; token += Tile::threads / kAcross) {
    for (int d = thread_rank() % kAcross * kTokenWidth<T>; d < padded_width(width);
         d += kAcross * kTokenWidth<T>) {
      body(token, d);
    }
  }
}

/// The elements of a token from d on; 0 beyond the token's end.
template <class A, class T>
__device__ __forceinline__ Vec<A, kTokenWidth<T>> read_piece_of(const T* token, int d, int width) {
  constexpr int kWidth = kTokenWidth<T>;
  Vec<T, kWidth> read{};
  if (d + kWidth <= width) {
    read = load_vec<kWidth>(token + d);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (d + i < width) read[i] = token[d + i];
    }
  }
  Vec<A, kWidth> values;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = to_accumulate(read[i]);
  return values;
}

/// Reads the tokens first to first + count - 1 into `rows`.
template <class Tile, class T>
__device__ void load_rows(const Tokens<T>& tokens, std::int64_t first, int count, int width,
                          typename Tile::Accumulator* rows) {
  using A = typename Tile::Accumulator;
  for_each_piece<Tile, T>(padded_rows<Tile>(count), width, [=](int token, int d) {
    Vec<A, kTokenWidth<T>> values{};
    if (token < count) values = read_piece_of<A>(tokens.at(first + token), d, width);
    store_vec(rows + token * row_stride(width) + d, values);
  });
}

/// Reads the tokens first to first + count - 1 into `columns`, with 0 in the other columns.
template <class Tile, class T>
__device__ void load_columns(const Tokens<T>& tokens, std::int64_t first, int count, int width,
                             typename Tile::Accumulator* columns) {
  using A = typename Tile::Accumulator;
  for_each_piece<Tile, T>(Tile::tokens, width, [=](int token, int d) {
    Vec<A, kTokenWidth<T>> values{};
    if (token < count) values = read_piece_of<A>(tokens.at(first + token), d, width);
    A* const to = columns + d * Tile::column_stride + token;
#pragma unroll
    for (int i = 0; i < kTokenWidth<T>; ++i) to[i * Tile::column_stride] = values[i];
  });
}

/// Writes `columns`, column i times scale(i), to the tokens from `first` on, or adds it to them.
template <class Tile, class T, class Scale>
__device__ void store_columns(const Tokens<T>& tokens, std::int64_t first, int count, int width,
                              const typename Tile::Accumulator* columns, bool accumulate,
                              const Scale& scale) {
  using A = typename Tile::Accumulator;
  constexpr int kWidth = kTokenWidth<T>;
  for_each_piece<Tile, T>(count, width, [=](int token, int d) {
    const A* const from = columns + d * Tile::column_stride + token;
    const A factor = scale(token);
    T* const to = tokens.at(first + token) + d;
    Vec<A, kWidth> values;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = factor * from[i * Tile::column_stride];
    if (d + kWidth <= width) {
      store_result(to, values, accumulate);
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (d + i < width) store_result(to + i, Vec<A, 1>{{values[i]}}, accumulate);
      }
    }
  });
}

template <class Tile>
__device__ void zero_columns(typename Tile::Accumulator* columns, int width) {
  for (int i = thread_rank(); i < padded_width(width) * Tile::column_stride; i += Tile::threads)
    columns[i] = 0;
}

/// rows * right or, with kTransposed, rows^T * right: `results` rows of Tile::tokens columns, each a sum of
/// `depth` products. `results` and `depth` are multiples of 4. Calls use(row, column, sums) with the sums of
/// row `row` in kLanes<A> columns from `column` on.
template <class Tile, bool kTransposed, class Use>
__device__ __forceinline__ void multiply(const typename Tile::Accumulator* rows, int stride,
                                         const typename Tile::Accumulator* right, int results, int depth,
                                         const Use& use) {
  using A = typename Tile::Accumulator;
  constexpr int kRows = Tile::thread_rows;
  constexpr int kVectors = Tile::thread_columns / kLanes<A>;
  constexpr int kParts = Tile::tokens / Tile::thread_columns;  // of the columns
  // The GPU reads `rows` in pieces too: of neighbours in depth, or transposed in result rows.
  constexpr int kSteps = kGpuGeometry && !kTransposed ? kLanes<A> : 1;
  constexpr int kRowReads = kGpuGeometry && kTransposed ? minimum(kRows, kLanes<A>) : 1;

  // The 32 threads of a warp are arranged as 4 groups of rows and 8 parts of the columns, so that one read of
  // shared memory serves all of them from 4 places in `rows` and 8 in `right`.
  constexpr int kPatchParts = kGpuGeometry ? 8 : 1;
  constexpr int kPatchGroups = kGpuGeometry ? 4 : 1;
  constexpr int kPatchesInRow = kGpuGeometry ? kParts / kPatchParts : 1;
  const int patch = thread_rank() / (kPatchParts * kPatchGroups);
  const int within = thread_rank() % (kPatchParts * kPatchGroups);
  const int first_part = patch % kPatchesInRow * kPatchParts + within % kPatchParts;
  const int first_group = patch / kPatchesInRow * kPatchGroups + within / kPatchParts;
  constexpr int kPartsAtOnce = kPatchesInRow * kPatchParts;
  constexpr int kGroupsAtOnce = Tile::threads / kPartsAtOnce;

  const int groups = results / kRows;
  for (int group = first_group; group < groups; group += kGroupsAtOnce) {
    // A group's rows: neighbours where they are neighbours in memory, else far apart, so that the rows that a
    // warp reads at a time are neighbours.
    const auto row_of = [=](int i) { return kTransposed ? group * kRows + i : group + i * groups; };
    for (int part = first_part; part < kParts; part += kPartsAtOnce) {
      const int column = part * Tile::thread_columns;
      Row<A, kLanes<A>> sums[kRows][kVectors] = {};
      for (int k = 0; k < depth; k += kSteps) {
        A left[kRows][kSteps];
        if constexpr (kTransposed) {
#pragma unroll
          for (int i = 0; i < kRows; i += kRowReads) {
            const auto read = read_row<kRowReads>(rows + k * stride + row_of(i));
#pragma unroll
            for (int j = 0; j < kRowReads; ++j) left[i + j][0] = read[j];
          }
        } else {
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            const auto read = read_row<kSteps>(rows + row_of(i) * stride + k);
#pragma unroll
            for (int j = 0; j < kSteps; ++j) left[i][j] = read[j];
          }
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const A* from = right + (k + step) * Tile::column_stride + column;
          Row<A, kLanes<A>> read[kVectors];
#pragma unroll
          for (int v = 0; v < kVectors; ++v) {
            read[v] = read_row<kLanes<A>>(from + v * kLanes<A>);
          }
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int v = 0; v < kVectors; ++v) multiply_add(sums[i][v], left[i][step], read[v]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          Vec<A, kLanes<A>> values;
          __builtin_memcpy(&values, &sums[i][v], sizeof values);
          use(row_of(i), column + v * kLanes<A>, values);
        }
      }
    }
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
