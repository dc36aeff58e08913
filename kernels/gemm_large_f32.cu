#include "kernels/common/kernel.h"
//
#include "kernels/gemm_large.h"
#include "kernels/gemm_tiled.h"

/// f32 products of many tiles: rung 8 of the ladder (kernels/ladders/gemm), extended. Four steps' tiles are
/// in shared memory, so that three are in flight; the next k's values are read from shared memory while this
/// k's values are multiplied; and the tiles of both operands have k first, so that each read is of 16 bytes
/// without bank conflicts. An operand with k last is transposed by its copies, 4 bytes at a time.
///
/// As in gemm_tiled.cu every element of C is one chain of multiply-adds in the order of k.
namespace ringtape::RINGTAPE_TARGET {
namespace {

/// The layout of one operand's tile: [k][outer], with a padding that puts eight k of a row, which are stored
/// together if the operand has k last, in different banks.
template <bool kKContiguous>
struct FloatTile {
  static constexpr bool k_contiguous = kKContiguous;
  static constexpr int outer = LargeTile::side, depth = 8;
  static constexpr int width = kKContiguous ? 1 : 4;  // elements of a copy
  static constexpr int stride = outer + 4;
  static constexpr int elements = depth * stride;
  __device__ static int place(int outer, int k) { return k * stride + outer; }
};

/// A thread's 8 x 16 elements of C. The lanes of a warp are arranged in 8 rows of 4: a lane has four
/// neighbouring rows in each half of the warp's rows, and four neighbouring columns in each quarter of its
/// columns.
template <bool kAKContiguous, bool kBKContiguous>
class FloatPart {
 public:
  using ATile = FloatTile<kAKContiguous>;
  using BTile = FloatTile<kBKContiguous>;
  static constexpr int stages = 4;
  static constexpr int groups = ATile::depth;  // one k each
  static constexpr int buffer_stride = LargeTile::side + 4;

  __device__ __forceinline__ void load(int buffer, const float* a_tile, const float* b_tile, int k) {
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      a_[buffer][i] = load_aligned<4>(a_tile + ATile::place(warp_.row + lane_row_ + 32 * i, k));
    }
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
      b_[buffer][i] = load_aligned<4>(b_tile + BTile::place(warp_.column + lane_column_ + 16 * i, k));
    }
  }
  __device__ __forceinline__ void multiply(int buffer) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        sums_[r][c] += a_[buffer][r / 4][r % 4] * b_[buffer][c / 4][c % 4];
      }
    }
  }
  __device__ __forceinline__ void keep(int pass, float* buffer) const {
    const int first_row = warp_.row / LargeTile::passes + lane_row_;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int i = 0; i < kColumns / 4; ++i) {
        const float* four = sums_[pass * 4 + r] + 4 * i;
        store_aligned(buffer + (first_row + r) * buffer_stride + warp_.column + lane_column_ + 16 * i,
                      Vec<float, 4>{{four[0], four[1], four[2], four[3]}});
      }
    }
  }

 private:
  static constexpr int kRows = 8, kColumns = 16;

  WarpOrigin warp_;
  int lane_row_ = threadIdx.x % 32 / 4 * 4, lane_column_ = threadIdx.x % 4 * 4;
  Vec<float, 4> a_[2][kRows / 4], b_[2][kColumns / 4];
  float sums_[kRows][kColumns] = {};
};

}  // namespace

void gemm_large_f32(const Stream& stream, const GemmArgs& args) {
  launch_large_for_layouts<float, float, FloatPart>(stream, args);
}

}  // namespace ringtape::RINGTAPE_TARGET
