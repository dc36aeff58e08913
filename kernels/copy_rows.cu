#include "kernels/copy_rows.h"

#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Elements of short rows for a block of the CPU, where the start of each block has a cost.
constexpr std::int64_t kCpuElements = 8192;

/// Block (b, s) copies or adds stretch s of row b; on the CPU, of the block's share of the rows.
template <class T, bool kAccumulate>
__global__ void copy_stretch(const T* from, std::int64_t from_ld, T* to, std::int64_t to_ld,
                             std::int64_t rows, std::int64_t columns, std::int64_t stretch) {
  const std::int64_t first = blockIdx.y * stretch;
  const int length = static_cast<int>(minimum(stretch, columns - first));
  const auto copy_row = [=](std::int64_t row) {
    const T* const source = from + row * from_ld + first;
    T* const target = to + row * to_ld + first;
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
  };
  if constexpr (kGpuGeometry) {
    copy_row(blockIdx.x);
  } else {
    const BlockShare share = share_of_block(rows);
    for (std::int64_t row = share.first; row < share.end; ++row) copy_row(row);
  }
}

template <class T, bool kAccumulate = false>
void launch_copy(const Stream& stream, const void* from, std::int64_t from_ld, void* to, std::int64_t to_ld,
                 std::int64_t rows, std::int64_t columns) {
  const std::int64_t stretch = minimum(columns, stretch_of(columns, 65536));
  LaunchShape shape = row_shape<T>(kGpuGeometry ? rows : 1, stretch);
  if constexpr (!kGpuGeometry) {
    shape.grid.x = static_cast<unsigned>(minimum(rows, ceil_div(rows * stretch, kCpuElements)));
  }
  shape.grid.y = static_cast<unsigned>(ceil_div(columns, stretch));
  launch(copy_stretch<T, kAccumulate>, shape, stream, static_cast<const T*>(from), from_ld,
         static_cast<T*>(to), to_ld, rows, columns, stretch);
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
