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

/// All threads of all blocks must call this after add_part().
template <class To>
__device__ void join_parts(const Extents& e, ReduceScratch* scratch, To* y, double scale, bool accumulate) {
  if (e.parts == 1 || !last_block_done(&scratch->blocks_done)) return;
  const std::int64_t sums = e.outer * e.inner;
  for (std::int64_t index = thread_rank(); index < sums; index += block_threads()) {
    double sum = 0;
    for (std::int64_t part = 0; part < e.parts; ++part) sum += scratch->partial[part * sums + index];
    write_sum(y, index, sum, scale, accumulate);
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
  const std::int64_t length = minimum(e.part_length, e.mid - first);
  const BlockShare share = share_of_block(e.outer);
  for (std::int64_t row = share.first; row < share.end; row += share.step) {
    const From* part = x + row * e.mid + first;
    LaneSum<accumulate_t<From>> sum;
    for_each_vec_in_block<From>(length, [&](std::int64_t i, auto lanes, int slot) {
      const auto values = load_vec<lanes>(part + i);
      for (int k = 0; k < lanes; ++k) sum.add(slot + k, to_accumulate(values[k]));
    });
    const double total = block_sum(static_cast<double>(sum.total()));
    if (threadIdx.x == 0) add_part(e, row, total, scratch, y, scale, accumulate);
  }
  join_parts(e, scratch, y, scale, accumulate);
}

/// Neighbouring columns that one thread adds up: on the CPU many, a loop over contiguous memory.
constexpr int kColumnsOfThread = kGpuGeometry ? 1 : 512;
constexpr unsigned kColumnThreads = kGpuGeometry ? 32 : 1;
constexpr unsigned kRowThreads = kGpuGeometry ? 16 : 1;
constexpr int kColumnsOfBlock = kColumnsOfThread * static_cast<int>(kColumnThreads);

/// inner > 1: a block for each group of neighbouring columns and part; its threads divide the rows of the
/// part.
template <class From, class To>
__global__ void sum_columns(const From* x, Extents e, double scale, To* y, bool accumulate,
                            ReduceScratch* scratch) {
  using A = accumulate_t<From>;
  const std::int64_t groups = ceil_div(e.inner, kColumnsOfBlock);
  const std::int64_t outer = blockIdx.x / groups;
  const std::int64_t column =
      blockIdx.x % groups * kColumnsOfBlock + static_cast<std::int64_t>(threadIdx.x) * kColumnsOfThread;
  const int columns = static_cast<int>(minimum<std::int64_t>(kColumnsOfThread, e.inner - column));
  const std::int64_t first = blockIdx.y * e.part_length;
  const std::int64_t end = minimum(first + e.part_length, e.mid);

  A sums[kColumnsOfThread] = {};
  for (std::int64_t row = first + threadIdx.y; row < end; row += blockDim.y) {
    const From* values = x + (outer * e.mid + row) * e.inner + column;
    for (int k = 0; k < columns; ++k) sums[k] += to_accumulate(values[k]);
  }

  A* shared = dynamic_shared<A>();  // [kRowThreads, kColumnsOfBlock]
  A* mine = shared + static_cast<int>(threadIdx.y) * kColumnsOfBlock +
            static_cast<int>(threadIdx.x) * kColumnsOfThread;
  for (int k = 0; k < kColumnsOfThread; ++k) mine[k] = sums[k];
  __syncthreads();
  if (threadIdx.y == 0) {
    for (int k = 0; k < columns; ++k) {
      double total = 0;
      for (unsigned row = 0; row < kRowThreads; ++row)
        total += mine[k + static_cast<int>(row) * kColumnsOfBlock];
      add_part(e, outer * e.inner + column + k, total, scratch, y, scale, accumulate);
    }
  }
  join_parts(e, scratch, y, scale, accumulate);
}

/// Divides mid among blocks, in parts of at least `least` elements, where there are few sums.
Extents with_parts(std::int64_t outer, std::int64_t mid, std::int64_t inner, std::int64_t least) {
  constexpr std::int64_t kMostParts = 1024;
  constexpr std::int64_t kMultiple = 64;  // keeps the parts of a row aligned
  const std::int64_t room = minimum<std::int64_t>(ReduceScratch::kMaxBlocks / (outer * inner), kMostParts);
  const std::int64_t parts = maximum<std::int64_t>(minimum(room, mid / least), 1);
  const std::int64_t length = ceil_div(ceil_div(mid, parts), kMultiple) * kMultiple;
  return {outer, mid, inner, maximum<std::int64_t>(ceil_div(mid, maximum<std::int64_t>(length, 1)), 1),
          length};
}

template <class From, class To>
void launch_sum(const Stream& stream, const From* x, std::int64_t outer, std::int64_t mid, std::int64_t inner,
                double scale, To* y, bool accumulate) {
  if (outer * inner == 0) return;
  if (inner == 1) {
    const Extents e = with_parts(outer, mid, 1, 8192);
    const std::int64_t threads = ceil_div(ceil_div(e.part_length, kVecLanes<From>), 32) * 32;
    const LaunchShape shape{
        dim3(static_cast<unsigned>(minimum<std::int64_t>(outer, ReduceScratch::kMaxBlocks)),
             static_cast<unsigned>(e.parts)),
        kGpuGeometry ? static_cast<unsigned>(minimum<std::int64_t>(maximum<std::int64_t>(threads, 32), 256))
                     : 1u};
    launch(sum_rows<From, To>, shape, stream, x, e, scale, y, accumulate, reduce_scratch(stream));
  } else {
    const Extents e = with_parts(outer, mid, inner, 256);
    const LaunchShape shape{
        dim3(static_cast<unsigned>(outer * ceil_div(inner, kColumnsOfBlock)), static_cast<unsigned>(e.parts)),
        dim3(kColumnThreads, kRowThreads), kRowThreads * kColumnsOfBlock * sizeof(accumulate_t<From>)};
    launch(sum_columns<From, To>, shape, stream, x, e, scale, y, accumulate, reduce_scratch(stream));
  }
}

/// The number of elements of a row that one block of broadcast_rows writes: more in rows that would exceed
/// the grid's y limit of 65,535.
std::int64_t stretch_of(std::int64_t length) {
  constexpr std::int64_t kLeast = 8192, kMostBlocks = 65535;
  return kLeast * maximum<std::int64_t>(1, ceil_div(length, kLeast * kMostBlocks));
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
  for_each_vec_in_block<T>(minimum(stretch, length - first), [=](std::int64_t i, auto lanes) {
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
  const std::int64_t stretch = stretch_of(length);
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const std::int64_t threads = ceil_div(ceil_div(minimum(length, stretch), kVecLanes<T>), 32) * 32;
    const LaunchShape shape{
        dim3(static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(length, stretch))),
        kGpuGeometry ? static_cast<unsigned>(minimum<std::int64_t>(threads, 256)) : 1u};
    launch(broadcast_rows<T>, shape, stream, static_cast<const T*>(x), mid, length, stretch, constant,
           static_cast<accumulate_t<T>>(scale), static_cast<T*>(y), accumulate);
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
