#include "kernels/common/kernel.h"

#include "kernels/bias.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Columns per thread: neighbouring threads of the GPU take neighbouring columns, a CPU thread takes a
/// contiguous range that the compiler vectorises.
constexpr int kColumns = kGpuGeometry ? 1 : 512;

/// Threads as a rectangle over columns (x) and rows (y): a row of a narrow matrix does not fill a warp.
dim3 block_over(std::int64_t columns) {
  if constexpr (!kGpuGeometry) return dim3(1, 1);
  unsigned width = 32;
  while (width / 2 >= columns && width > 1) width /= 2;
  return dim3(width, 256 / width);
}

/// The number of columns of the thread whose first column is `begin`.
__device__ int count_of_thread(std::int64_t begin, std::int64_t columns) {
  return static_cast<int>(minimum<std::int64_t>(maximum<std::int64_t>(columns - begin, 0), kColumns));
}

template <class T>
__global__ void add_bias(const T* bias, T* y, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                         std::int64_t block_rows) {
  const std::int64_t begin = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kColumns;
  const int count = count_of_thread(begin, columns);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * block_rows;
  const std::int64_t last_row = minimum(rows, first_row + block_rows);
  using A = accumulate_t<T>;
  // A thread of the GPU has one column and reads its bias once. (On the CPU an array of them would be
  // slower.)
  const A only = count > 0 ? to_accumulate(bias[begin]) : A{0};
  for (std::int64_t row = first_row + threadIdx.y; row < last_row; row += blockDim.y) {
    T* const to = y + row * ld + begin;
#pragma GCC ivdep
    for (int i = 0; i < count; ++i) {
      const A added = kColumns == 1 ? only : to_accumulate(bias[begin + i]);
      to[i] = from_accumulate<T>(to_accumulate(to[i]) + added);
    }
  }
}

template <class T>
__global__ void sum_columns(const T* x, accumulate_t<T>* sums, std::int64_t rows, std::int64_t columns,
                            std::int64_t chunk_rows, bool accumulate) {
  using A = accumulate_t<T>;
  const std::int64_t begin = (std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kColumns;
  const int count = count_of_thread(begin, columns);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * chunk_rows;
  const std::int64_t last_row = minimum(rows, first_row + chunk_rows);

  A sum[kColumns] = {};
#pragma unroll 4
  for (std::int64_t row = first_row + threadIdx.y; row < last_row; row += blockDim.y) {
    const T* from = x + row * columns + begin;
    for (int i = 0; i < count; ++i) sum[i] += to_accumulate(from[i]);
  }

  // The threads of a column write their sums to shared memory, and the first of them adds them up.
  A* const shared = dynamic_shared<A>();
  for (int i = 0; i < kColumns; ++i) shared[(threadIdx.y * blockDim.x + threadIdx.x) * kColumns + i] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0) return;
  A* const to = sums + blockIdx.x * columns + begin;
  for (int i = 0; i < count; ++i) {
    A total = accumulate ? to[i] : A{0};
    for (unsigned y = 0; y < blockDim.y; ++y) total += shared[(y * blockDim.x + threadIdx.x) * kColumns + i];
    to[i] = total;
  }
}

LaunchShape shape_over(std::int64_t row_chunks, std::int64_t columns) {
  const dim3 block = block_over(columns);
  return {dim3(static_cast<unsigned>(row_chunks),
               static_cast<unsigned>(ceil_div(columns, std::int64_t{block.x} * kColumns))),
          block};
}

}  // namespace

void bias_add(const Stream& stream, DType dtype, const void* bias, void* y, std::int64_t rows,
              std::int64_t columns, std::int64_t ld) {
  // On the GPU a thread handles about eight elements; on the CPU a block is a few thousand.
  const std::int64_t threads_y = block_over(columns).y;
  const std::int64_t block_rows = kGpuGeometry ? 8 * threads_y : 256;
  const LaunchShape shape = shape_over(ceil_div(rows, block_rows), columns);
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(add_bias<T>, shape, stream, static_cast<const T*>(bias),
                                    static_cast<T*>(y), rows, columns, ld, block_rows));
}

void column_sums(const Stream& stream, DType dtype, const void* x, void* sums, std::int64_t rows,
                 std::int64_t columns, std::int64_t chunk_rows, bool accumulate) {
  // Without rows there is still one chunk, whose sums are 0.
  LaunchShape shape = shape_over(maximum<std::int64_t>(ceil_div(rows, chunk_rows), 1), columns);
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    shape.shared_bytes = shape.block.x * shape.block.y * kColumns * sizeof(accumulate_t<T>);
    launch(sum_columns<T>, shape, stream, static_cast<const T*>(x), static_cast<accumulate_t<T>*>(sums), rows,
           columns, chunk_rows, accumulate);
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
