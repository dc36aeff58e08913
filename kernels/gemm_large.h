#pragma once

#include "kernels/common/kernel.h"

#include "kernels/common/async_copy.h"
#include "kernels/gemm_problem.h"

/// Shared by the two kernels for large products on a GPU (gemm_large_f32.cu, gemm_large_half.cu): a block of
/// four warps computes 128 x 128 elements of C, 64 x 64 for each warp. cp.async fills the tiles of the next
/// steps along k while one is multiplied. Blocks and steps that lie wholly inside the matrices copy without
/// any test; at the edges every copy is tested, and elements outside are 0.
namespace ringtape::RINGTAPE_TARGET {

struct LargeTile {
  static constexpr int side = 128;  // rows and columns of C
  static constexpr int warp_side = 64;
  static constexpr int threads = 128;
  /// C is written through shared memory, 32 rows of each warp in a pass: so a thread writes 16 neighbouring
  /// bytes, whichever elements its registers hold.
  static constexpr int pass_rows = 32;
  static constexpr int passes = warp_side / pass_rows;
  static constexpr int buffer_rows = side / warp_side * pass_rows;
};

/// The first row and column of this block's tile. Blocks are numbered down the columns, in one dimension: a
/// grid has at most 65,535 blocks in y.
struct TileOrigin {
  std::int64_t row, column;
  __device__ explicit TileOrigin(std::int64_t m) {
    const auto tiles_m = static_cast<unsigned>(ceil_div(m, LargeTile::side));
    row = std::int64_t{blockIdx.x % tiles_m} * LargeTile::side;
    column = std::int64_t{blockIdx.x / tiles_m} * LargeTile::side;
  }
};

/// The first row and column of this warp's part within the block's tile.
struct WarpOrigin {
  int row, column;
  __device__ WarpOrigin()
      : row(threadIdx.x / 64 * LargeTile::warp_side), column(threadIdx.x / 32 % 2 * LargeTile::warp_side) {}
};

/// One thread's part of the copies of one operand, step after step along k. `Tile` says where an element lies
/// in shared memory, and how many neighbours a copy moves: place(outer, k), width, outer, depth.
template <class T, class Tile>
class TileStream {
 public:
  __device__ TileStream(const GemmOperand<T>& operand, std::int64_t k_end, std::int64_t first_outer)
      : operand_(operand),
        k_end_(k_end),
        first_outer_(first_outer),
        rows_apart_(kRowsOfPass * operand.ld),
        next_(operand.data + (Tile::k_contiguous ? (first_outer + outer_of(0)) * operand.ld + k_of(0)
                                                 : k_of(0) * operand.ld + first_outer + outer_of(0))),
        whole_steps_(0) {
    const bool inside = first_outer + Tile::outer <= operand.outer;
    const bool aligned =
        Tile::width == 1 || (is_aligned<Piece>(operand.data) && operand.ld % Tile::width == 0);
    if (inside && aligned) whole_steps_ = static_cast<int>(k_end / Tile::depth);
  }

  /// Starts to copy the elements of `step` to `tile`; elements beyond the matrix are 0. Called for each step
  /// in order.
  __device__ __forceinline__ void begin(int step, T* tile, AsyncCopies& copies) {
    if (step < whole_steps_) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        copies.copy<sizeof(Piece)>(tile + Tile::place(outer_of(i), k_of(i)), next_ + i * rows_apart_);
      }
    } else {
      begin_at_edge(std::int64_t{step} * Tile::depth, tile, copies);
    }
    next_ += Tile::k_contiguous ? Tile::depth : Tile::depth * operand_.ld;
  }

 private:
  using Piece = Vec<T, Tile::width>;
  static constexpr int kPieces = Tile::outer * Tile::depth / (Tile::width * LargeTile::threads);
  static constexpr int kRow = (Tile::k_contiguous ? Tile::depth : Tile::outer) / Tile::width;  // in pieces
  static constexpr int kRowsOfPass = LargeTile::threads / kRow;

  __device__ static int k_of(int i) {
    const int rank = threadIdx.x;
    return Tile::k_contiguous ? rank % kRow * Tile::width : rank / kRow + i * kRowsOfPass;
  }
  __device__ static int outer_of(int i) {
    const int rank = threadIdx.x;
    return Tile::k_contiguous ? rank / kRow + i * kRowsOfPass : rank % kRow * Tile::width;
  }

  /// f32 one by one, because it need not be aligned; 16-bit elements as far as they go, in whole pieces.
  __device__ __forceinline__ void begin_at_edge(std::int64_t first_k, T* tile, AsyncCopies& copies) {
    constexpr int kWidth = sizeof(T) == 4 ? 1 : Tile::width;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
#pragma unroll
      for (int lane = 0; lane < Tile::width; lane += kWidth) {
        const int k = k_of(i), outer = outer_of(i) + lane;  // f32 with k contiguous: one lane
        const std::int64_t k_left = k_end_ - first_k - k, outer_left = operand_.outer - first_outer_ - outer;
        const std::int64_t left = Tile::k_contiguous ? k_left : outer_left;
        const bool any = k_left > 0 && outer_left > 0;
        const int valid = any ? static_cast<int>(minimum<std::int64_t>(left, kWidth)) : 0;
        copies.copy<kWidth * sizeof(T)>(tile + Tile::place(outer, k), next_ + i * rows_apart_ + lane,
                                        valid * static_cast<int>(sizeof(T)));
      }
    }
  }

  const GemmOperand<T>& operand_;
  std::int64_t k_end_;
  std::int64_t first_outer_;
  std::int64_t rows_apart_;
  const T* next_;    // the thread's first element of the next step
  int whole_steps_;  // steps that are copied without any test
};

/// Writes the tile of C from the sums that the threads' `part`s hold. Overwrites the tiles of A and B.
template <class T, class Out, class Part>
__device__ __forceinline__ void write_tile(const Problem<T, Out>& problem, TileOrigin origin,
                                           const Part& part) {
  constexpr int kSide = LargeTile::side, kWidth = kVecLanes<Out>;
  float* const buffer = dynamic_shared<float>();
  const std::int64_t m = problem.a.outer, n = problem.b.outer;
  const bool inside = origin.row + kSide <= m && origin.column + kSide <= n;
  const auto write = [&](int element, int pass, auto width) {
    const int row_of_buffer = element / kSide, column = element % kSide;
    const int row = row_of_buffer / LargeTile::pass_rows * LargeTile::warp_side +
                    pass * LargeTile::pass_rows + row_of_buffer % LargeTile::pass_rows;
    if (!inside && (origin.row + row >= m || origin.column + column >= n)) return;
    write_result<Out, width>(problem.c + (origin.row + row) * problem.ldc + origin.column + column,
                             load_aligned<width>(buffer + row_of_buffer * Part::buffer_stride + column),
                             width, problem.bias == nullptr ? nullptr : problem.bias + origin.column + column,
                             problem.alpha, problem.beta);
  };
  constexpr int kElements = LargeTile::buffer_rows * kSide;
#pragma unroll
  for (int pass = 0; pass < LargeTile::passes; ++pass) {
    __syncthreads();
    part.keep(pass, buffer);
    __syncthreads();
    if (inside) {
#pragma unroll 2
      for (int i = threadIdx.x * kWidth; i < kElements; i += LargeTile::threads * kWidth) {
        write(i, pass, Lanes<kWidth>());
      }
    } else {
#pragma unroll 1
      for (int i = threadIdx.x; i < kElements; i += LargeTile::threads) write(i, pass, Lanes<1>());
    }
  }
}

/// The kernel. `Part` is a thread's part of the products: the sums of its elements of C, and values from
/// shared memory in two buffers, so that the next ones are read while these are multiplied. It has
/// - ATile and BTile (see TileStream), `stages`, the number of steps whose tiles are kept, and `groups`, an
///   even number of parts into which a step is divided along k,
/// - load(buffer, a_tile, b_tile, group), multiply(buffer),
/// - keep(pass, buffer), which puts the sums of a pass where write_tile() expects them: rows pass * 32 to
///   pass * 32 + 31 of each warp's part, the upper warps' first, buffer_stride elements from one row to the
///   next (chosen so that its stores have no bank conflicts).
template <class T, class Out, class Part>
__global__ void __launch_bounds__(LargeTile::threads, 2) gemm_large(Problem<T, Out> problem) {
  using ATile = typename Part::ATile;
  using BTile = typename Part::BTile;
  constexpr int kStages = Part::stages, kGroups = Part::groups;
  T* const a_tiles = dynamic_shared<T>();
  T* const b_tiles = a_tiles + kStages * ATile::elements;
  const TileOrigin origin(problem.a.outer);
  TileStream<T, ATile> a(problem.a, problem.k, origin.row);
  TileStream<T, BTile> b(problem.b, problem.k, origin.column);
  AsyncCopies copies;
  const auto steps = static_cast<int>(ceil_div(problem.k, ATile::depth));
  const auto begin_step = [&](int step) {
    if (step < steps) {
      a.begin(step, a_tiles + step % kStages * ATile::elements, copies);
      b.begin(step, b_tiles + step % kStages * BTile::elements, copies);
    }
    copies.commit();  // also where nothing is left to copy, so that wait() counts steps
  };
  Part part;
  const auto load = [&](int buffer, int step, int group) {
    part.load(buffer, a_tiles + step % kStages * ATile::elements, b_tiles + step % kStages * BTile::elements,
              group);
  };

#pragma unroll 1
  for (int step = 0; step < kStages - 1; ++step) begin_step(step);
  copies.wait<kStages - 2>();
  __syncthreads();
  load(0, 0, 0);
#pragma unroll 1
  for (int step = 0; true; ++step) {
    begin_step(step + kStages - 1);
#pragma unroll
    for (int group = 0; group + 1 < kGroups; ++group) {
      load((group + 1) % 2, step, group + 1);
      part.multiply(group % 2);
    }
    if (step + 1 == steps) break;
    copies.wait<kStages - 2>();
    __syncthreads();  // the next step's tiles are there, and no thread reads this step's any more
    load(0, step + 1, 0);
    part.multiply(1);
  }
  part.multiply(1);
  write_tile(problem, origin, part);
}

template <class T, class Out, class Part>
void launch_large(const Stream& stream, const GemmArgs& args) {
  constexpr std::size_t kTileBytes =
      Part::stages * (Part::ATile::elements + Part::BTile::elements) * sizeof(T);
  constexpr std::size_t kBufferBytes = LargeTile::buffer_rows * Part::buffer_stride * sizeof(float);
  const auto blocks = ceil_div(args.m, LargeTile::side) * ceil_div(args.n, LargeTile::side);
  launch(gemm_large<T, Out, Part>,
         {static_cast<unsigned>(blocks), LargeTile::threads, maximum(kTileBytes, kBufferBytes)}, stream,
         problem_of<T, Out>(args));
}

/// launch_large with the Part for the operands' layouts.
template <class T, class Out, template <bool kAKContiguous, bool kBKContiguous> class Part>
void launch_large_for_layouts(const Stream& stream, const GemmArgs& args) {
  if (args.transpose_a) {
    args.transpose_b ? launch_large<T, Out, Part<false, true>>(stream, args)
                     : launch_large<T, Out, Part<false, false>>(stream, args);
  } else {
    args.transpose_b ? launch_large<T, Out, Part<true, true>>(stream, args)
                     : launch_large<T, Out, Part<true, false>>(stream, args);
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
