#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"

/// Kernels in which a block handles one row of a matrix at a time, in several passes, most of them over the
/// cache. Its threads visit the same elements in every pass (for_each_vec_in_block), so no thread waits for
/// what another has written.
namespace ringtape::RINGTAPE_TARGET {

/// The 16-byte vectors of each row that a GPU thread keeps. Four are in flight together, and a row of 1,024
/// floats has two warps, whose reductions cost less than the reductions of eight warps.
inline constexpr int kKeptVectors = 4;

/// The most threads in a block that keeps two rows: in 16 bits that takes about 140 registers, of which a
/// multiprocessor has enough for 384 threads.
inline constexpr int kMaxThreadsOfTwoRows = kGpuGeometry ? 384 : kMaxRowThreads;

/// The shape for a kernel that goes through its rows by share_of_block(rows). On the GPU a block takes one
/// row at a time, and several if there are many rows, because starting a block takes as long as two reads
/// from memory; on the CPU a block is one thread and has up to 8192 elements, or a single longer row.
template <class T>
LaunchShape rows_shape(std::int64_t rows, std::int64_t columns, int max_threads = kMaxRowThreads) {
  constexpr std::int64_t kMaxBlocks = 8192;
  if constexpr (kGpuGeometry) {
    LaunchShape shape = row_shape<T>(minimum(rows, kMaxBlocks), columns, kKeptVectors);
    shape.block.x = minimum<unsigned>(shape.block.x, max_threads);
    return shape;
  }
  const std::int64_t rows_of_block = maximum<std::int64_t>(1, 8192 / maximum<std::int64_t>(columns, 1));
  return {static_cast<unsigned>(ceil_div(rows, rows_of_block)), 1};
}

/// W elements from `from` on, in the accumulation type.
template <int W, class T>
__device__ inline Vec<accumulate_t<T>, W> load_accumulate(const T* from) {
  return to_accumulate(load_vec<W>(from));
}

/// N rows of equal length that several passes read together. On the GPU a thread keeps its elements in
/// registers, up to kKeptVectors vectors of each row, so that they are read from memory once; on the CPU they
/// are read again from the cache.
template <class T, int N>
class RowsInPasses {
 public:
  template <class... Rows>
  __device__ explicit RowsInPasses(std::int64_t columns, const Rows*... rows)
      : columns_(columns), rows_{rows...} {
    if constexpr (kGpuGeometry) {
#pragma unroll
      for (int v = 0; v < kKept; ++v) {
        const std::int64_t vector = thread_rank() + std::int64_t{v} * block_threads();
        if (vector >= columns_ / kWidth) continue;
        for (int n = 0; n < N; ++n) kept_[n][v] = load_vec<kWidth>(rows_[n] + vector * kWidth);
      }
    }
  }

  /// Adds `other` to the first row, rounded to T, and writes the result to `sum`, which replaces that row.
  __device__ void add(const T* other, T* sum) {
    const auto add_at = [&](std::int64_t i, auto lanes, auto values) {
      const auto added = load_accumulate<lanes>(other + i);
      Vec<T, lanes> rounded;
      for (int k = 0; k < lanes; ++k) rounded[k] = from_accumulate<T>(values[0][k] + added[k]);
      store_vec(sum + i, rounded);
      return rounded;
    };
    if constexpr (kGpuGeometry) {
      const std::int64_t vectors = columns_ / kWidth, threads = block_threads();
#pragma unroll
      for (int v = 0; v < kKept; ++v) {
        const std::int64_t vector = thread_rank() + v * threads;
        if (vector < vectors) kept_[0][v] = add_at(vector * kWidth, Lanes<kWidth>{}, kept(v));
      }
      for (std::int64_t vector = thread_rank() + kKept * threads; vector < vectors; vector += threads) {
        add_at(vector * kWidth, Lanes<kWidth>{}, read<kWidth>(vector * kWidth));
      }
      for (std::int64_t i = vectors * kWidth + thread_rank(); i < columns_; i += threads) {
        add_at(i, Lanes<1>{}, read<1>(i));
      }
    } else {
      for_each_vec_in_block<T>(columns_,
                               [&](std::int64_t i, auto lanes) { add_at(i, lanes, read<lanes>(i)); });
    }
    rows_[0] = sum;  // a thread reads there what it has written itself
  }

  /// for_each_vec_in_block with the elements: body(i, lanes, slot, values), where values[n][k] is of row n.
  template <class Body>
  __device__ void for_each(const Body& body) const {
    if constexpr (kGpuGeometry) {
      const std::int64_t vectors = columns_ / kWidth, threads = block_threads();
#pragma unroll
      for (int v = 0; v < kKept; ++v) {
        const std::int64_t vector = thread_rank() + v * threads;
        if (vector < vectors) body(vector * kWidth, Lanes<kWidth>{}, 0, kept(v));
      }
      for (std::int64_t vector = thread_rank() + kKept * threads; vector < vectors; vector += threads) {
        body(vector * kWidth, Lanes<kWidth>{}, 0, read<kWidth>(vector * kWidth));
      }
      for (std::int64_t i = vectors * kWidth + thread_rank(); i < columns_; i += threads) {
        body(i, Lanes<1>{}, 0, read<1>(i));
      }
    } else {
      for_each_vec_in_block<T>(
          columns_, [&](std::int64_t i, auto lanes, int slot) { body(i, lanes, slot, read<lanes>(i)); });
    }
  }

  /// The sum over the columns of term(values, k), where k is the column's lane; every thread of the block
  /// gets it.
  template <class Term>
  __device__ accumulate_t<T> sum(const Term& term) const {
    LaneSum<accumulate_t<T>> sum;
    for_each([&](std::int64_t, auto lanes, int slot, const auto& values) {
      for (int k = 0; k < lanes; ++k) sum.add(slot + k, term(values, k));
    });
    return block_sum(sum.total());
  }

 private:
  using A = accumulate_t<T>;
  static constexpr int kWidth = kVecLanes<T>;
  static constexpr int kKept = kKeptVectors;

  template <int W>
  __device__ Vec<Vec<A, W>, N> read(std::int64_t i) const {
    Vec<Vec<A, W>, N> values;
    for (int n = 0; n < N; ++n) values[n] = load_accumulate<W>(rows_[n] + i);
    return values;
  }
  __device__ Vec<Vec<A, kWidth>, N> kept(int v) const {
    Vec<Vec<A, kWidth>, N> values;
    for (int n = 0; n < N; ++n) values[n] = to_accumulate(kept_[n][v]);
    return values;
  }

  std::int64_t columns_;
  const T* rows_[N];
  Vec<T, kWidth> kept_[N][kGpuGeometry ? kKept : 1];
};

}  // namespace ringtape::RINGTAPE_TARGET
