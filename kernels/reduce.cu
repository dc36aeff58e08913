#include "kernels/common/kernel.h"

#include "kernels/common/grid_sum.h"
#include "kernels/common/store_result.h"
#include "kernels/reduce.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// x [outer, mid, inner] is summed over mid, which is divided among `parts` blocks in pieces of part_length.
struct Extents {
  std::int64_t outer, mid, inner, parts, part_length;
};

template <class To>
__device__ void write_sum(To* y, std::int64_t index, double sum, double scale, bool accumulate) {
  store_result(y + index, Vec<accumulate_t<To>, 1>{{static_cast<accumulate_t<To>>(scale * sum)}}, accumulate);
}

/// The sum of `count` values: values[0], values[stride], ...
template <class A>
__device__ double strided_sum(const A* values, int count, int stride) {
  double total = 0;
  for (int i = 0; i < count; ++i) total += values[i * stride];
  return total;
}

/// Adds up the parts of y's elements first to first + count - 1, in a block with shared memory for a double
/// per thread. If there are more threads than elements, several threads share the parts of an element.
template <class To>
__device__ void join_parts(const Extents& e, std::int64_t first, std::int64_t count,
                           const ReduceScratch* scratch, To* y, double scale, bool accumulate) {
  const std::int64_t sums = e.outer * e.inner;
  const auto sum_of_parts = [&](std::int64_t element, std::int64_t first_part, std::int64_t step) {
    double total = 0;
#pragma unroll 4
    for (std::int64_t part = first_part; part < e.parts; part += step) {
      total += scratch->partial[part * sums + element];
    }
    return total;
  };
  const int threads = block_threads(), rank = thread_rank();
  if (count >= threads) {
    for (std::int64_t i = first + rank; i < first + count; i += threads) {
      write_sum(y, i, sum_of_parts(i, 0, 1), scale, accumulate);
    }
    return;
  }
  const int elements = static_cast<int>(count), sharers = threads / elements;
  double* const of_threads = dynamic_shared<double>();
  if (rank < sharers * elements) {
    of_threads[rank] = sum_of_parts(first + rank % elements, rank / elements, sharers);
  }
  __syncthreads();
  if (rank < elements) {
    write_sum(y, first + rank, strided_sum(of_threads + rank, sharers, elements), scale, accumulate);
  }
}

/// Stores the sum of one part of y's element `index`: the result itself if it is the only part.
template <class To>
__device__ void add_part(const Extents& e, std::int64_t index, double sum, ReduceScratch* scratch, To* y,
                         double scale, bool accumulate) {
  if (e.parts == 1) {
    write_sum(y, index, sum, scale, accumulate);
  } else {
    scratch->partial[blockIdx.y * e.outer * e.inner + index] = sum;
  }
}

/// inner = 1: blockIdx.x is over the rows, blockIdx.y over the parts of each row.
template <class From, class To>
__global__ void sum_rows(const From* x, Extents e, double scale, To* y, bool accumulate,
                         ReduceScratch* scratch) {
  const std::int64_t first = blockIdx.y * e.part_length;
  const int length = static_cast<int>(minimum(e.part_length, e.mid - first));
  const BlockShare share = share_of_block(e.outer);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const From* part = x + row * e.mid + first;
    LaneSum<accumulate_t<From>> sum;
    const auto add_up = [&](const auto& load) {
      for_each_vec_in_block<From>(length, [&](std::int64_t i, auto lanes, int slot) {
        const auto values = to_accumulate(load(part + i, lanes));
        for (int k = 0; k < lanes; ++k) sum.add(slot + k, values[k]);
      });
    };
    // Decided once for a row: a decision at each vector would double the loop's instructions.
    if (kPieces && is_aligned<Vec<From, kVecLanes<From>>>(part)) {
      add_up([](const From* from, auto lanes) { return load_aligned<lanes>(from); });
    } else {
      add_up([](const From* from, auto lanes) { return load_vec<lanes>(from); });
    }
    const double total = block_sum(static_cast<double>(sum.total()));
    if (threadIdx.x == 0) add_part(e, row, total, scratch, y, scale, accumulate);
  }
  if (e.parts == 1 || !last_block_done(&scratch->blocks_done)) return;
  join_parts(e, 0, e.outer, scratch, y, scale, accumulate);
}

/// On the CPU a thread adds up kCpuColumns neighbouring columns in a loop over contiguous memory. A GPU
/// thread has a vector of 16 bytes where rows consist of aligned vectors, otherwise one column.
constexpr int kCpuColumns = 512;

/// The threads of a block of sum_columns, over columns (x, `columns_of_thread` each) and rows (y).
dim3 column_threads(std::int64_t inner, int columns_of_thread) {
  if constexpr (!kGpuGeometry) return dim3(1, 1);
  constexpr unsigned kThreads = 256;
  const unsigned most = columns_of_thread == 1 ? 32 : 8;  // a row's part is 128 bytes
  unsigned width = 1;
  while (width < most && width * columns_of_thread < inner) width *= 2;
  return dim3(width, kThreads / width);
}

/// inner > 1: a block for each group of neighbouring columns (blockIdx.x) and part of mid (blockIdx.y); its
/// threads divide the rows of the part. The block of a group that finishes last adds up the parts.
template <class From, class To, int W>
__global__ void sum_columns(const From* x, Extents e, double scale, To* y, bool accumulate,
                            ReduceScratch* scratch) {
  using A = accumulate_t<From>;
  const int width = static_cast<int>(blockDim.x) * W,
            threads_y = kGpuGeometry ? static_cast<int>(blockDim.y) : 1;
  const std::int64_t groups = ceil_div(e.inner, width);
  const std::int64_t outer = blockIdx.x / groups;
  const std::int64_t first_column = blockIdx.x % groups * width;
  const std::int64_t column = first_column + static_cast<std::int64_t>(threadIdx.x) * W;
  const int columns = static_cast<int>(minimum<std::int64_t>(W, e.inner - column));
  const std::int64_t first = blockIdx.y * e.part_length;
  const std::int64_t end = columns > 0 ? minimum(first + e.part_length, e.mid) : 0;

  A sums[W] = {};
  const From* const from = x + outer * e.mid * e.inner + column;
  std::int64_t row = first + threadIdx.y;
  if constexpr (kGpuGeometry) {
    constexpr int kRows = 4;  // whose loads are in flight together
    for (; row + (kRows - 1) * threads_y < end; row += kRows * threads_y) {
      Vec<From, W> read[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) read[r] = load_aligned<W>(from + (row + r * threads_y) * e.inner);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const auto values = to_accumulate(read[r]);
        for (int k = 0; k < W; ++k) sums[k] += values[k];
      }
    }
#pragma unroll 1
    for (; row < end; row += threads_y) {
      const auto values = to_accumulate(load_aligned<W>(from + row * e.inner));
      for (int k = 0; k < W; ++k) sums[k] += values[k];
    }
  } else {
    for (; row < end; row += threads_y) {
      for (int k = 0; k < columns; ++k) sums[k] += to_accumulate(from[row * e.inner + k]);
    }
  }

  A* const shared = dynamic_shared<A>();  // [blockDim.y, width]
  A* const mine = shared + static_cast<int>(threadIdx.y) * width + static_cast<int>(threadIdx.x) * W;
  for (int k = 0; k < W; ++k) mine[k] = sums[k];
  __syncthreads();
  const int columns_of_block = static_cast<int>(minimum<std::int64_t>(width, e.inner - first_column));
  const std::int64_t of_group = outer * e.inner + first_column;
  for (int c = thread_rank(); c < columns_of_block; c += block_threads()) {
    add_part(e, of_group + c, strided_sum(shared + c, threads_y, width), scratch, y, scale, accumulate);
  }
  if (e.parts == 1 || !last_block_done(&scratch->of_group_done[blockIdx.x], gridDim.y)) return;
  join_parts(e, of_group, columns_of_block, scratch, y, scale, accumulate);
}

/// Divides mid among at most `most` blocks, in parts of at least `least` elements.
Extents with_parts(std::int64_t outer, std::int64_t mid, std::int64_t inner, std::int64_t most,
                   std::int64_t least) {
  constexpr std::int64_t kMultiple = 64;  // keeps the parts of a row aligned
  const std::int64_t parts = maximum<std::int64_t>(minimum(most, mid / least), 1);
  const std::int64_t length = round_up(ceil_div(mid, parts), kMultiple);
  return {outer, mid, inner, maximum<std::int64_t>(ceil_div(mid, maximum<std::int64_t>(length, 1)), 1),
          length};
}

template <class From, class To>
void launch_sum_rows(const Stream& stream, const From* x, std::int64_t outer, std::int64_t mid, double scale,
                     To* y, bool accumulate) {
  const Extents e =
      with_parts(outer, mid, 1, minimum<std::int64_t>(ReduceScratch::kMaxBlocks / outer, 1024), 8192);
  constexpr std::int64_t kVectorsOfThread = 8;  // so that a short row has one warp, which needs no barrier
  const std::int64_t threads = ceil_div(e.part_length, 32 * kVectorsOfThread * kVecLanes<From>) * 32;
  const LaunchShape shape{
      dim3(static_cast<unsigned>(minimum<std::int64_t>(outer, 4 * ReduceScratch::kMaxBlocks)),
           static_cast<unsigned>(e.parts)),
      kGpuGeometry ? static_cast<unsigned>(minimum<std::int64_t>(maximum<std::int64_t>(threads, 32), 256))
                   : 1u,
      256 * sizeof(double)};
  launch(sum_rows<From, To>, shape, stream, x, e, scale, y, accumulate, reduce_scratch(stream));
}

template <int W, class From, class To>
void launch_sum_columns(const Stream& stream, const From* x, std::int64_t outer, std::int64_t mid,
                        std::int64_t inner, double scale, To* y, bool accumulate) {
  const dim3 threads = column_threads(inner, W);
  const std::int64_t groups = outer * ceil_div(inner, std::int64_t{threads.x} * W);
  const std::int64_t most =
      minimum(ReduceScratch::kMaxPartials / (outer * inner),
              2 * ReduceScratch::kMaxGroups / groups);  // at most 1 for more groups than counters
  const Extents e = with_parts(outer, mid, inner, most, 256);
  const LaunchShape shape{
      dim3(grid_size(groups), static_cast<unsigned>(e.parts)), threads,
      std::size_t{threads.x} * threads.y * maximum(W * sizeof(accumulate_t<From>), sizeof(double))};
  launch(sum_columns<From, To, W>, shape, stream, x, e, scale, y, accumulate, reduce_scratch(stream));
}

template <class From, class To>
void launch_sum(const Stream& stream, const From* x, std::int64_t outer, std::int64_t mid, std::int64_t inner,
                double scale, To* y, bool accumulate) {
  if (outer * inner == 0) return;
  if (inner == 1) {
    launch_sum_rows(stream, x, outer, mid, scale, y, accumulate);
  } else if constexpr (!kGpuGeometry) {
    launch_sum_columns<kCpuColumns>(stream, x, outer, mid, inner, scale, y, accumulate);
  } else if (inner % kVecLanes<From> == 0 && is_aligned<Vec<From, kVecLanes<From>>>(x)) {
    launch_sum_columns<kVecLanes<From>>(stream, x, outer, mid, inner, scale, y, accumulate);
  } else {
    launch_sum_columns<1>(stream, x, outer, mid, inner, scale, y, accumulate);
  }
}

/// A block for each stretch of each row of y. With `constant` all elements of a row are one value of x, else
/// row r is x's row r / mid.
template <class T>
__global__ void broadcast_rows(const T* x, std::int64_t mid, std::int64_t length, std::int64_t stretch,
                               bool constant, accumulate_t<T> scale, T* y, bool accumulate) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t first = blockIdx.y * stretch;
  const T* source = constant ? x + row : x + row / mid * length + first;
  T* to = y + row * length + first;
  const int elements = static_cast<int>(minimum(stretch, length - first));
  for_each_vec_in_block<T>(elements, [=](std::int64_t i, auto lanes) {
    Vec<T, lanes> read;
    if (constant) {
      for (int k = 0; k < lanes; ++k) read[k] = *source;
    } else {
      read = load_vec<lanes>(source + i);
    }
    Vec<accumulate_t<T>, lanes> values;
    for (int k = 0; k < lanes; ++k) values[k] = scale * to_accumulate(read[k]);
    store_result(to + i, values, accumulate);
  });
}

}  // namespace

void sum_dim(const Stream& stream, DType from, const void* x, std::int64_t outer, std::int64_t mid,
             std::int64_t inner, double scale, DType to, void* y, bool accumulate) {
  if (to != from && to != DType::f32) fail_unsupported_dtype("sum_dim", to);
  RINGTAPE_DISPATCH_FLOATING(from, T, {
    const T* values = static_cast<const T*>(x);
    if (to == from) {
      launch_sum(stream, values, outer, mid, inner, scale, static_cast<T*>(y), accumulate);
    } else {
      launch_sum(stream, values, outer, mid, inner, scale, static_cast<float*>(y), accumulate);
    }
  });
}

void broadcast_dim(const Stream& stream, DType dtype, const void* x, std::int64_t outer, std::int64_t mid,
                   std::int64_t inner, double scale, void* y, bool accumulate) {
  const bool constant = inner == 1;
  const std::int64_t rows = constant ? outer : outer * mid;
  const std::int64_t length = constant ? mid : inner;
  const std::int64_t stretch = stretch_of(length, 8192);
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    constexpr std::int64_t kVectorsOfThread = 4;
    const std::int64_t threads =
        ceil_div(minimum(length, stretch), 32 * kVectorsOfThread * kVecLanes<T>) * 32;
    const LaunchShape shape{dim3(grid_size(rows), static_cast<unsigned>(ceil_div(length, stretch))),
                            kGpuGeometry ? static_cast<unsigned>(minimum<std::int64_t>(threads, 256)) : 1u};
    launch(broadcast_rows<T>, shape, stream, static_cast<const T*>(x), mid, length, stretch, constant,
           static_cast<accumulate_t<T>>(scale), static_cast<T*>(y), accumulate);
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
