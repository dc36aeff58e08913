#include "kernels/copy_rows.h"

#include "kernels/common/kernel.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Columns for one block; longer rows are divided among several blocks.
constexpr std::int64_t kStretch = 65536;

LaunchShape stretches_shape(std::int64_t rows, std::int64_t columns, LaunchShape of_row) {
  of_row.grid = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(columns, kStretch)));
  return of_row;
}

/// Block (r, s) copies stretch s of row r, or adds it.
template <class T, bool kAccumulate>
__global__ void copy_stretch(const T* from, std::int64_t from_ld, T* to, std::int64_t to_ld,
                             std::int64_t columns) {
  const std::int64_t first = blockIdx.y * kStretch;
  const T* const source = from + blockIdx.x * from_ld + first;
  T* const target = to + blockIdx.x * to_ld + first;
  const int length = static_cast<int>(minimum(kStretch, columns - first));
  for_each_vec_in_block<T>(length, [=](std::int64_t c, auto lanes) {
    auto values = load_vec<lanes>(source + c);
    if constexpr (kAccumulate) {
      const auto sums = load_vec<lanes>(target + c);
      for (int k = 0; k < lanes; ++k) {
        values[k] = from_accumulate<T>(to_accumulate(sums[k]) + to_accumulate(values[k]));
      }
    }
    store_vec(target + c, values);
  });
}

template <class T, bool kAccumulate = false>
void launch_copy(const Stream& stream, const void* from, std::int64_t from_ld, void* to, std::int64_t to_ld,
                 std::int64_t rows, std::int64_t columns) {
  launch(copy_stretch<T, kAccumulate>,
         stretches_shape(rows, columns, row_shape<T>(rows, minimum(columns, kStretch))), stream,
         static_cast<const T*>(from), from_ld, static_cast<T*>(to), to_ld, columns);
}
}  // namespace

void copy_rows(const Stream& stream, DType dtype, const void* from, std::int64_t from_ld, void* to,
               std::int64_t to_ld, std::int64_t rows, std::int64_t columns, bool accumulate) {
  if (rows == 0 || columns == 0) return;
  if (accumulate) {
    RINGTAPE_DISPATCH_FLOATING(dtype, T,
                               launch_copy<T, true>(stream, from, from_ld, to, to_ld, rows, columns));
    return;
  }
  // A copy depends only on the element size.
  switch (dtype) {
    case DType::u8:
      return launch_copy<std::uint8_t>(stream, from, from_ld, to, to_ld, rows, columns);
    case DType::bf16:
    case DType::f16:
      return launch_copy<std::uint16_t>(stream, from, from_ld, to, to_ld, rows, columns);
    case DType::f32:
    case DType::i32:
      return launch_copy<std::uint32_t>(stream, from, from_ld, to, to_ld, rows, columns);
    case DType::f64:
    case DType::i64:
      return launch_copy<std::uint64_t>(stream, from, from_ld, to, to_ld, rows, columns);
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
