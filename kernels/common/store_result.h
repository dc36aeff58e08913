#pragma once

#include "kernels/common/kernel.h"

namespace ringtape::RINGTAPE_TARGET {

/// Rounds `values` to T and writes them at `to`; with `accumulate` adds them to the values there, rounding
/// the sum. With kAligned, `to` must be aligned as for load_aligned<W>.
template <bool kAligned = false, class T, int W>
__device__ __forceinline__ void store_result(T* to, Vec<accumulate_t<T>, W> values, bool accumulate) {
  if (accumulate) {
    const auto before = to_accumulate(kAligned ? load_aligned<W>(to) : load_vec<W>(to));
    for (int k = 0; k < W; ++k) values[k] += before[k];
  }
  Vec<T, W> rounded;
  for (int k = 0; k < W; ++k) rounded[k] = from_accumulate<T>(values[k]);
  kAligned ? store_aligned(to, rounded) : store_vec(to, rounded);
}

}  // namespace ringtape::RINGTAPE_TARGET
