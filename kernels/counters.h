#pragma once

#include "kernels/common/kernel.h"

#include "core/philox.h"

/// Loops over the elements of a tensor by the Philox counters that generate them, four elements each.
namespace ringtape::RINGTAPE_TARGET {

/// Reads the four elements of a counter, and writes them to an array for which is_aligned<Vec<T, 4>> holds.
struct WholeGroup {
  template <class T>
  __device__ Vec<T, 4> load(const T* from) const {
    return load_vec<4>(from);
  }
  template <class T>
  __device__ void store(T* to, const Vec<T, 4>& values) const {
    store_aligned(to, values);
  }
};

/// The same for the first `count` of the elements, one by one.
struct PartOfGroup {
  int count;

  template <class T>
  __device__ Vec<T, 4> load(const T* from) const {
    Vec<T, 4> values{};
    for (int k = 0; k < 4; ++k) {
      if (k < count) values[k] = from[k];
    }
    return values;
  }
  template <class T>
  __device__ void store(T* to, const Vec<T, 4>& values) const {
    for (int k = 0; k < 4; ++k) {
      if (k < count) to[k] = values[k];
    }
  }
};

/// Calls body(g, elements) for each group of four elements, 4 g to 4 g + 3, out of n; `elements` is a
/// WholeGroup or, at the end and where the written array is not `aligned`, a PartOfGroup. No call may touch
/// what another call writes.
template <class Body>
__device__ void for_each_counter(std::int64_t n, bool aligned, const Body& body) {
  const std::int64_t whole = n / 4;
  // Two loops, because nvcc keeps both kinds of stores in a single loop.
  if (aligned) {
    for_each_vec<Philox4>(whole, [=](std::int64_t group, auto) { body(group, WholeGroup{}); });
  } else {
    for_each_vec<Philox4>(whole, [=](std::int64_t group, auto) { body(group, PartOfGroup{4}); });
  }
  const int rest = static_cast<int>(n % 4);
  if (blockIdx.x == 0 && threadIdx.x == 0 && rest != 0) body(whole, PartOfGroup{rest});
}

/// The shape for a kernel that calls for_each_counter. With many blocks a GPU thread has up to eight
/// counters: the work that a thread does once, such as computing the keys of the rounds, is a third of the
/// work for one counter.
inline LaunchShape counters_shape(std::int64_t n) {
  LaunchShape shape = elementwise_shape<Philox4>(ceil_div(n, 4));
  constexpr unsigned kCountersOfThread = 8, kManyBlocks = 2048;
  if (kGpuGeometry && shape.grid.x > kManyBlocks) {
    shape.grid.x = maximum(kManyBlocks, ceil_div(shape.grid.x, kCountersOfThread));
  }
  return shape;
}

}  // namespace ringtape::RINGTAPE_TARGET
