#include "kernels/common/kernel.h"
//
#include "kernels/common/mma_tile.h"
#include "kernels/gemm_large.h"
#include "kernels/gemm_tiled.h"

/// 16-bit products of many tiles on the tensor cores, with f32 sums: the ladder's last rung
/// (kernels/ladders/gemm/9_tensor_core.cu) for every layout, with three steps' tiles in place of two, and
/// operands that are loaded while others are multiplied.
///
/// The order in which mma adds the products of sixteen k is not specified, so a GPU's result may differ from
/// the CPU's in the last bits.
namespace ringtape::RINGTAPE_TARGET {
namespace {

/// A thread's part of C, as mma distributes it.
template <class T, bool kAKContiguous, bool kBKContiguous>
class HalfPart {
 public:
  using ATile = MmaTile<kAKContiguous, LargeTile::side, 32>;
  using BTile = MmaTile<kBKContiguous, LargeTile::side, 32>;
  static constexpr int stages = 3;
  static constexpr int groups = ATile::depth / 16;
  static constexpr int buffer_stride = LargeTile::side + 8;

  __device__ __forceinline__ void load(int buffer, const T* a_tile, const T* b_tile, int group) {
    load_operands<ATile, BTile>(a_tile, b_tile, warp_.row, warp_.column, 16 * group, operands_[buffer]);
  }
  __device__ __forceinline__ void multiply(int buffer) { products_.template multiply<T>(operands_[buffer]); }
  __device__ __forceinline__ void keep(int pass, float* buffer) const {
    const int lane = threadIdx.x % 32;
    constexpr int kProducts = WarpProducts::rows / LargeTile::passes;
#pragma unroll
    for (int r = 0; r < kProducts; ++r) {
      float* row = buffer + (warp_.row / LargeTile::passes + 16 * r + lane / 4) * buffer_stride +
                   warp_.column + lane % 4 * 2;
#pragma unroll
      for (int c = 0; c < WarpProducts::columns; ++c) {
        const float* four = products_.sums[pass * kProducts + r][c];
        store_aligned(row + 8 * c, Vec<float, 2>{{four[0], four[1]}});
        store_aligned(row + 8 * buffer_stride + 8 * c, Vec<float, 2>{{four[2], four[3]}});
      }
    }
  }

 private:
  WarpOrigin warp_;
  WarpProducts::Operands operands_[2];
  WarpProducts products_;
};

template <bool kAKContiguous, bool kBKContiguous>
using Bfloat16Part = HalfPart<bfloat16, kAKContiguous, kBKContiguous>;
template <bool kAKContiguous, bool kBKContiguous>
using Float16Part = HalfPart<float16, kAKContiguous, kBKContiguous>;

}  // namespace

void gemm_large_half(const Stream& stream, const GemmArgs& args) {
  const bool wide = args.out_dtype == DType::f32;
  if (args.dtype == DType::bf16) {
    wide ? launch_large_for_layouts<bfloat16, float, Bfloat16Part>(stream, args)
         : launch_large_for_layouts<bfloat16, bfloat16, Bfloat16Part>(stream, args);
  } else {
    wide ? launch_large_for_layouts<float16, float, Float16Part>(stream, args)
         : launch_large_for_layouts<float16, float16, Float16Part>(stream, args);
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
