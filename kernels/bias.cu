#include "kernels/common/kernel.h"

#include "kernels/bias.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// On the CPU a thread takes kCpuColumns neighbouring columns in a loop that the compiler vectorises: whole
/// rows of most matrices, because memory is fastest from end to end. A GPU thread has a vector of 16 bytes
/// where rows consist of whole vectors, otherwise one column.
constexpr std::int64_t kCpuColumns = 4096, kCpuElements = 65536;
constexpr int kRowsOfThread = 8;  // on the GPU

/// Threads as a rectangle over columns (x) and rows (y): a row of a narrow matrix does not fill a warp.
dim3 block_over(std::int64_t columns, int columns_of_thread) {
  if constexpr (!kGpuGeometry) return dim3(1, 1);
  unsigned width = 32;
  while (width / 2 * columns_of_thread >= columns && width > 1) width /= 2;
  return dim3(width, 256 / width);
}

/// Block b has group b % `groups` of the columns, and part b / `groups` of the rows.
template <class T, int W>
__global__ void add_bias(const T* bias, T* y, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                         std::int64_t block_rows, unsigned groups) {
  const std::int64_t begin = (std::int64_t{blockIdx.x % groups} * blockDim.x + threadIdx.x) * W;
  if (begin >= columns) return;
  const std::int64_t first_row = blockIdx.x / groups * block_rows;
  const std::int64_t last_row = minimum(rows, first_row + block_rows);
  if constexpr (kGpuGeometry) {
    const auto added = load_vec<W>(bias + begin);
    const auto add_rows = [&](std::int64_t row, auto count) {
      Vec<T, W> values[count];
#pragma unroll
      for (int r = 0; r < count; ++r) values[r] = load_vec<W>(y + (row + r * blockDim.y) * ld + begin);
#pragma unroll
      for (int r = 0; r < count; ++r) {
        for (int k = 0; k < W; ++k) {
          values[r][k] = from_accumulate<T>(to_accumulate(values[r][k]) + to_accumulate(added[k]));
        }
        store_vec(y + (row + r * blockDim.y) * ld + begin, values[r]);
      }
    };
    constexpr int kTogether = 4;  // rows whose loads are in flight together
    const std::int64_t step = blockDim.y;
    std::int64_t row = first_row + threadIdx.y;
    for (; row + (kTogether - 1) * step < last_row; row += kTogether * step)
      add_rows(row, Lanes<kTogether>{});
    for (; row < last_row; row += step) add_rows(row, Lanes<1>{});
  } else {
    const std::int64_t count = minimum<std::int64_t>(W, columns - begin);
    for (std::int64_t row = first_row; row < last_row; ++row) {
      T* const to = y + row * ld + begin;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = from_accumulate<T>(to_accumulate(to[i]) + to_accumulate(bias[begin + i]));
      }
    }
  }
}

template <int W, class T>
void launch_add_bias(const Stream& stream, const T* bias, T* y, std::int64_t rows, std::int64_t columns,
                     std::int64_t ld) {
  const dim3 block = block_over(columns, W);
  const std::int64_t block_rows =
      kGpuGeometry ? kRowsOfThread * std::int64_t{block.y}
                   : kCpuElements / maximum<std::int64_t>(1, minimum(columns, kCpuColumns));
  const std::int64_t groups = ceil_div(columns, std::int64_t{block.x} * W);
  const LaunchShape shape{dim3(static_cast<unsigned>(groups * ceil_div(rows, block_rows))), block};
  launch(add_bias<T, W>, shape, stream, bias, y, rows, columns, ld, block_rows,
         static_cast<unsigned>(groups));
}

}  // namespace

void bias_add(const Stream& stream, DType dtype, const void* bias, void* y, std::int64_t rows,
              std::int64_t columns, std::int64_t ld) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const T* from = static_cast<const T*>(bias);
    T* to = static_cast<T*>(y);
    if constexpr (!kGpuGeometry) {
      launch_add_bias<kCpuColumns>(stream, from, to, rows, columns, ld);
    } else if (columns % kVecLanes<T> == 0 && ld % kVecLanes<T> == 0) {
      launch_add_bias<kVecLanes<T>>(stream, from, to, rows, columns, ld);
    } else {
      launch_add_bias<1>(stream, from, to, rows, columns, ld);
    }
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
