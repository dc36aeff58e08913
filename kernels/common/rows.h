#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"

/// Kernels in which a block handles one row of a matrix at a time, again and again from the cache: its
/// threads visit the same elements in every pass (for_each_vec_in_block), so none waits for what another has
/// written.
namespace ringtape::RINGTAPE_TARGET {

/// The shape for a kernel that goes through its rows by share_of_block(rows): a block for each row on the
/// GPU; on the CPU one thread for at least 8192 elements.
template <class T>
LaunchShape rows_shape(std::int64_t rows, std::int64_t columns) {
  if constexpr (kGpuGeometry) return row_shape<T>(rows, columns);
  const std::int64_t rows_of_block = maximum<std::int64_t>(1, 8192 / maximum<std::int64_t>(columns, 1));
  return {static_cast<unsigned>(ceil_div(rows, rows_of_block)), 1};
}

/// Elements i to i + W - 1 in the accumulation type.
template <int W, class T>
__device__ inline Vec<accumulate_t<T>, W> load_accumulate(const T* from) {
  const auto elements = load_vec<W>(from);
  Vec<accumulate_t<T>, W> values;
  for (int k = 0; k < W; ++k) values[k] = to_accumulate(elements[k]);
  return values;
}

/// The sum over a row of term(i, lanes), a Vec of the terms of elements i to i + lanes - 1; every thread of
/// the block gets it.
template <class T, class Term>
__device__ inline accumulate_t<T> row_sum(std::int64_t columns, const Term& term) {
  LaneSum<accumulate_t<T>> sum;
  for_each_vec_in_block<T>(columns, [&](std::int64_t i, auto lanes, int slot) {
    const auto terms = term(i, lanes);
    for (int k = 0; k < lanes; ++k) sum.add(slot + k, terms[k]);
  });
  return block_sum(sum.total());
}

}  // namespace ringtape::RINGTAPE_TARGET
