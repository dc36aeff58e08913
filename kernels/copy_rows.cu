#include "kernels/copy_rows.h"

#include "kernels/kernel.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// One block a row.
template <class T>
__global__ void copy_rows(const T* from, std::int64_t from_ld, T* to, std::int64_t to_ld,
                          std::int64_t columns) {
  const T* const from_row = from + blockIdx.x * from_ld;
  T* const to_row = to + blockIdx.x * to_ld;
  for_each_vec_in_block<T>(
      columns, [=](std::int64_t c, auto lanes) { store_vec(to_row + c, load_vec<lanes>(from_row + c)); });
}

/// One block a row.
template <class T>
__global__ void add_rows(const T* from, std::int64_t from_ld, T* to, std::int64_t to_ld,
                         std::int64_t columns) {
  const T* const from_row = from + blockIdx.x * from_ld;
  T* const to_row = to + blockIdx.x * to_ld;
  for_each_vec_in_block<T>(columns, [=](std::int64_t c, auto lanes) {
    const auto x = load_vec<lanes>(from_row + c);
    auto y = load_vec<lanes>(to_row + c);
    for (int k = 0; k < lanes; ++k) y[k] = from_accumulate<T>(to_accumulate(y[k]) + to_accumulate(x[k]));
    store_vec(to_row + c, y);
  });
}

template <class T>
void launch_copy(const Stream& stream, const void* from, std::int64_t from_ld, void* to, std::int64_t to_ld,
                 std::int64_t rows, std::int64_t columns) {
  launch(copy_rows<T>, row_shape<T>(rows, columns), stream, static_cast<const T*>(from), from_ld,
         static_cast<T*>(to), to_ld, columns);
}

}  // namespace

void copy_rows(const Stream& stream, DType dtype, const void* from, std::int64_t from_ld, void* to,
               std::int64_t to_ld, std::int64_t rows, std::int64_t columns, bool accumulate) {
  if (rows == 0 || columns == 0) return;
  if (accumulate) {
    RINGTAPE_DISPATCH_FLOATING(
        dtype, T,
        launch(add_rows<T>, row_shape<T>(rows, columns), stream, static_cast<const T*>(from), from_ld,
               static_cast<T*>(to), to_ld, columns));
    return;
  }
  // A copy looks at the size of an element alone.
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
