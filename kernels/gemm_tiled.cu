#include "kernels/common/kernel.h"

#include "kernels/common/register_row.h"
#include "kernels/gemm_problem.h"
#include "kernels/gemm_tiled.h"

/// Each block computes one tile of C. It loops over k in steps of Tile::k: the threads copy a tile of A and
/// one of B into shared memory, then each adds the products for its own rows x columns of C into registers.
/// The copy of the next step is read from global memory before the products and written to a second pair of
/// tiles after them, so that the GPU computes while it waits for memory, and one barrier per step is enough.
///
/// Every element of C is one chain of multiply-adds in the order of k, whatever the tile. So both tiles give
/// the same bits, and so do the GPU and a CPU that has fused multiply-add. (Not the tensor cores, which
/// multiply 16-bit matrices of many tiles: gemm_large_half.cu.)
namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Sizes of a block's tile, M x N of C and K of the sum, and of a thread's part of it.
template <class A, int M, int N, int K, int ThreadRows, int ThreadColumns>
struct TileSizes {
  using Accumulator = A;
  static constexpr int m = M, n = N, k = K;
  static constexpr int thread_rows = ThreadRows;
  static constexpr int threads_x = N / ThreadColumns;
  static constexpr int threads = M / ThreadRows * threads_x;
  static constexpr int blocks_per_multiprocessor = 512 / threads;  // leaves each thread 128 registers

  // A thread's rows and columns are chunks spread over the tile, so that the threads of a warp read
  // neighbouring addresses of shared memory.
  static constexpr int row_chunk = kGpuGeometry ? kLanes<A> : ThreadRows;
  static constexpr int column_chunk = kLanes<A>;
  static constexpr int row_chunks = ThreadRows / row_chunk;
  static constexpr int column_chunks = ThreadColumns / column_chunk;

  // Elements from one k to the next in the tiles of A and B. The padding halves the bank conflicts of
  // transposing stores; reads have none.
  static constexpr int a_stride = M + kLanes<A>;
  static constexpr int b_stride = N + kLanes<A>;
  static constexpr int a_elements = K * a_stride;
  static constexpr int b_elements = K * b_stride;
  static constexpr std::size_t shared_bytes = 2 * (a_elements + b_elements) * sizeof(A);
};

// A CPU thread's sums take 16 of AVX-512's 32 vector registers; its steps are long, because a barrier costs a
// fiber switch.
template <class A>
using LargeTile = std::conditional_t<kGpuGeometry, TileSizes<A, 128, 128, 16, 8, 8>,
                                     TileSizes<A, 64, 128, 512 / sizeof(A), 8, 2 * kLanes<A>>>;
template <class A>
using SmallTile =
    std::conditional_t<kGpuGeometry, TileSizes<A, 32, 32, 32, 4, 4>,
                       TileSizes<A, 32, maximum(16, 2 * kLanes<A>), 256 / sizeof(A), 8, 2 * kLanes<A>>>;

/// The depth of the step that starts at first_k. On the GPU it is always the tile's whole depth, with zeros
/// beyond the matrix, so that the loop can be unrolled.
template <class Tile>
__device__ int steps_from(std::int64_t first_k, std::int64_t k_end) {
  return kGpuGeometry ? Tile::k : static_cast<int>(minimum<std::int64_t>(k_end - first_k, Tile::k));
}

/// One thread's part of the copy of one operand into shared memory: pieces of neighbouring elements, held in
/// registers between `fetch` and `store`.
template <class T, class Tile, int Outer, int Stride>
class TileCopy {
  using A = typename Tile::Accumulator;

 public:
  __device__ TileCopy(const GemmOperand<T>& operand, std::int64_t k_end, std::int64_t first_outer)
      : operand_(operand), k_end_(k_end), first_outer_(first_outer), rank_(thread_rank()) {}

  /// Reads the step that starts at first_k; elements beyond the matrix count as 0.
  __device__ void fetch(std::int64_t first_k) {
    steps_ = steps_from<Tile>(first_k, k_end_);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (k_of(i) >= steps_) continue;
      const std::int64_t k = first_k + k_of(i);
      const std::int64_t outer = first_outer_ + outer_of(i);
      const bool inside = k < k_end_ && outer < operand_.outer;
      const std::int64_t at = operand_.k_contiguous ? outer * operand_.ld + k : k * operand_.ld + outer;
      const std::int64_t left = operand_.k_contiguous ? k_end_ - k : operand_.outer - outer;
      if (inside && left >= kWidth) {
        pieces_[i] = load_vec<kWidth>(operand_.data + at);
      } else {
#pragma unroll
        for (int lane = 0; lane < kWidth; ++lane)
          pieces_[i][lane] = inside && lane < left ? operand_.data[at + lane] : T{};
      }
    }
  }

  /// Writes what `fetch` read to tile[k][outer].
  __device__ void store(A* tile) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (k_of(i) >= steps_) continue;
      A* to = tile + k_of(i) * Stride + outer_of(i);
      if (operand_.k_contiguous) {
#pragma unroll
        for (int lane = 0; lane < kWidth; ++lane) to[lane * Stride] = to_accumulate(pieces_[i][lane]);
      } else {
#pragma unroll
        for (int lane = 0; lane < kWidth; lane += kLanes<A>) {
          Vec<A, kLanes<A>> values;
#pragma unroll
          for (int j = 0; j < kLanes<A>; ++j) values[j] = to_accumulate(pieces_[i][lane + j]);
          Row<A, kLanes<A>> row;
          __builtin_memcpy(&row, &values, sizeof row);
          *reinterpret_cast<Row<A, kLanes<A>>*>(to + lane) = row;
        }
      }
    }
  }

 private:
  static constexpr int kWidth = kGpuGeometry ? kVecLanes<T> : 16;
  static constexpr int kPieces = Outer * Tile::k / (kWidth * Tile::threads);
  static_assert(kPieces * kWidth * Tile::threads == Outer * Tile::k);
  static_assert(Outer % kWidth == 0 && Tile::k % kWidth == 0);

  __device__ int piece(int i) const {
    return i * Tile::threads + rank_;
  }
  __device__ int k_of(int i) const {
    return operand_.k_contiguous ? piece(i) % (Tile::k / kWidth) * kWidth : piece(i) / (Outer / kWidth);
  }
  __device__ int outer_of(int i) const {
    return operand_.k_contiguous ? piece(i) / (Tile::k / kWidth) : piece(i) % (Outer / kWidth) * kWidth;
  }

  const GemmOperand<T>& operand_;
  std::int64_t k_end_;
  std::int64_t first_outer_;
  int rank_;
  int steps_ = 0;
  Vec<T, kWidth> pieces_[kPieces] = {};
};

/// The position of a thread's part in the tile. The 32 threads of a warp are arranged as 4 x 8, so that one
/// read of shared memory serves all of them from 4 chunks of A and 8 of B.
template <class Tile>
struct ThreadPart {
  static constexpr int kPatchX = kGpuGeometry ? 8 : Tile::threads_x;
  static constexpr int kPatchY = kGpuGeometry ? 4 : 1;
  int x, y;

  __device__ ThreadPart() {
    const int patch = thread_rank() / (kPatchX * kPatchY);
    const int within = thread_rank() % (kPatchX * kPatchY);
    x = patch % (Tile::threads_x / kPatchX) * kPatchX + within % kPatchX;
    y = patch / (Tile::threads_x / kPatchX) * kPatchY + within / kPatchX;
  }
  __device__ int row(int i) const {
    return i / Tile::row_chunk * (Tile::m / Tile::row_chunks) + y * Tile::row_chunk + i % Tile::row_chunk;
  }
  __device__ int column(int chunk) const {
    return chunk * (Tile::n / Tile::column_chunks) + x * Tile::column_chunk;
  }
};

template <class T, class Out, class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_multiprocessor)
    gemm_tile(Problem<T, Out> problem) {
  using A = accumulate_t<T>;
  constexpr int kRowReads = kGpuGeometry ? kLanes<A> : 1;  // the CPU broadcasts single elements from memory
  using Columns = Row<A, Tile::column_chunk>;
  using Rows = Row<A, kRowReads>;

  A* const a_tiles = dynamic_shared<A>();
  A* const b_tiles = a_tiles + 2 * Tile::a_elements;

  // In one dimension: a grid has at most 65,535 blocks in y.
  const auto tiles_m = static_cast<unsigned>(ceil_div(problem.a.outer, Tile::m));
  const std::int64_t first_row = std::int64_t{blockIdx.x % tiles_m} * Tile::m;
  const std::int64_t first_column = std::int64_t{blockIdx.x / tiles_m} * Tile::n;
  TileCopy<T, Tile, Tile::m, Tile::a_stride> copy_a(problem.a, problem.k, first_row);
  TileCopy<T, Tile, Tile::n, Tile::b_stride> copy_b(problem.b, problem.k, first_column);
  const ThreadPart<Tile> part;
  Columns sums[Tile::thread_rows][Tile::column_chunks] = {};

  copy_a.fetch(0);
  copy_b.fetch(0);
  copy_a.store(a_tiles);
  copy_b.store(b_tiles);
  __syncthreads();

  int now = 0;
  for (std::int64_t k = 0; k < problem.k; k += Tile::k) {
    const bool more = k + Tile::k < problem.k;
    if (more) {
      copy_a.fetch(k + Tile::k);
      copy_b.fetch(k + Tile::k);
    }
    const A* const a_tile = a_tiles + now * Tile::a_elements;
    const A* const b_tile = b_tiles + now * Tile::b_elements;
    const int steps = steps_from<Tile>(k, problem.k);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      A a[Tile::thread_rows];
      Columns b[Tile::column_chunks];
#pragma unroll
      for (int i = 0; i < Tile::thread_rows; i += kRowReads) {
        const Rows rows = *reinterpret_cast<const Rows*>(a_tile + step * Tile::a_stride + part.row(i));
#pragma unroll
        for (int j = 0; j < kRowReads; ++j) a[i + j] = rows[j];
      }
#pragma unroll
      for (int j = 0; j < Tile::column_chunks; ++j) {
        b[j] = *reinterpret_cast<const Columns*>(b_tile + step * Tile::b_stride + part.column(j));
      }
#pragma unroll
      for (int i = 0; i < Tile::thread_rows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::column_chunks; ++j) multiply_add(sums[i][j], a[i], b[j]);
      }
    }
    now = 1 - now;
    if (more) {
      copy_a.store(a_tiles + now * Tile::a_elements);
      copy_b.store(b_tiles + now * Tile::b_elements);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < Tile::thread_rows; ++i) {
    const std::int64_t row = first_row + part.row(i);
    if (row >= problem.a.outer) continue;
#pragma unroll
    for (int j = 0; j < Tile::column_chunks; ++j) {
      const std::int64_t column = first_column + part.column(j);
      const std::int64_t valid = minimum<std::int64_t>(problem.b.outer - column, Tile::column_chunk);
      if (valid <= 0) continue;
      Vec<A, Tile::column_chunk> values;
      __builtin_memcpy(&values, &sums[i][j], sizeof values);
      write_result<Out>(problem.c + row * problem.ldc + column, values, static_cast<int>(valid),
                        problem.bias == nullptr ? nullptr : problem.bias + column, problem.alpha,
                        problem.beta);
    }
  }
}

template <class T, class Out, class Tile>
void launch_tile(const Stream& stream, const GemmArgs& args) {
  const dim3 grid(static_cast<unsigned>(ceil_div(args.m, Tile::m) * ceil_div(args.n, Tile::n)));
  launch(gemm_tile<T, Out, Tile>, {grid, Tile::threads, Tile::shared_bytes}, stream,
         problem_of<T, Out>(args));
}

/// Whether the rows of a 16-bit operand can be copied 16 bytes at a time.
bool has_whole_pieces(const void* data, std::int64_t ld) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && ld % 8 == 0;
}

/// The large tile reads memory less often. The small tile wastes less on a narrow C, and gives a small C
/// enough blocks to occupy the device. On a GPU separate kernels compute products of many large tiles, except
/// of 16-bit operands that are not aligned.
template <class T, class Out>
void launch_gemm(const Stream& stream, const GemmArgs& args) {
  using Large = LargeTile<accumulate_t<T>>;
  using Small = SmallTile<accumulate_t<T>>;
  constexpr std::int64_t kEnoughBlocks = kIsCpu ? 2 : 128;
  const bool narrow = args.m <= Small::m || args.n <= Small::n || args.k == 0;
  if (narrow || ceil_div(args.m, Large::m) * ceil_div(args.n, Large::n) < kEnoughBlocks) {
    launch_tile<T, Out, Small>(stream, args);
  } else if constexpr (kGpuGeometry && std::is_same_v<T, float>) {
    gemm_large_f32(stream, args);
  } else if (kGpuGeometry && sizeof(T) == 2 && has_whole_pieces(args.a, args.lda) &&
             has_whole_pieces(args.b, args.ldb)) {
    gemm_large_half(stream, args);
  } else {
    launch_tile<T, Out, Large>(stream, args);
  }
}

}  // namespace

void gemm_tiled(const Stream& stream, const GemmArgs& args) {
  RINGTAPE_DISPATCH_FLOATING(args.dtype, T, {
    if (args.out_dtype == args.dtype) {
      launch_gemm<T, T>(stream, args);
    } else {
      launch_gemm<T, accumulate_t<T>>(stream, args);
    }
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
