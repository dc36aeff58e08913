#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/common/tensor_core.h"
#include "lessons/26-gemm-pipeline-tensor-cores/fragments.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

constexpr int kSide = 16;

struct Tile {
  alignas(16) bfloat16 at[kSide][kSide];
};

__device__ void copy_tile(Tile& tile, const bfloat16* matrix) {
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kSide; i += 32)
    tile.at[i / kSide][i % kSide] = matrix[i];
  __syncthreads();
}

/// Lanes 0 to 15 give the addresses of the rows' left halves, lanes 16 to 31 of the right halves.
template <bool kTransposed>
__device__ void load_fragment(const Tile& tile, unsigned (&registers)[4]) {
  const int lane = static_cast<int>(threadIdx.x);
  load_matrices<kTransposed>(&tile.at[lane % 16][lane / 16 * 8], registers);
}

__global__ void load_once(bool transposed, const bfloat16* matrix, unsigned* held) {
  __shared__ Tile tile;
  copy_tile(tile, matrix);
  unsigned registers[4];
  if (transposed) {
    load_fragment<true>(tile, registers);
  } else {
    load_fragment<false>(tile, registers);
  }
  for (int i = 0; i < 4; ++i) held[threadIdx.x * 4 + i] = registers[i];
}

__global__ void multiply_once(const bfloat16* unit, const bfloat16* matrix, float* held) {
  __shared__ Tile a_tile;
  __shared__ Tile b_tile;
  copy_tile(a_tile, unit);
  copy_tile(b_tile, matrix);
  unsigned a[4], b[4];
  load_fragment<false>(a_tile, a);
  load_fragment<true>(b_tile, b);
  float sums[4] = {};
  multiply_matrices(sums, a, {b[0], b[1]});
  for (int i = 0; i < 4; ++i) held[threadIdx.x * 4 + i] = sums[i];
}

__global__ void sum_in_steps(bool waits, int n, const float* x, float* sum) {
  alignas(16) __shared__ float buffers[2 * 128];
  const int lane = static_cast<int>(threadIdx.x), steps = n / 128;
  AsyncCopies copies;
  copies.copy(buffers + 4 * lane, x + 4 * lane);
  copies.commit();
  float of_lane = 0;
  for (int step = 0; step < steps; ++step) {
    if (waits) copies.wait<0>();
    __syncthreads();
    if (step + 1 < steps) {  // into the buffer that this step does not read
      copies.copy(buffers + (step + 1) % 2 * 128 + 4 * lane, x + (step + 1) * 128 + 4 * lane);
      copies.commit();
    }
    // Four floats that another lane has copied.
    for (int i = 0; i < 4; ++i) of_lane += buffers[step % 2 * 128 + 4 * (31 - lane) + i];
  }
  of_lane = warp_sum(of_lane);
  if (lane == 0) *sum = of_lane;
}

}  // namespace

void lesson_load(const Stream& stream, bool transposed, const bfloat16* matrix, unsigned* held) {
  launch(load_once, {1, 32}, stream, transposed, matrix, held);
}

void lesson_multiply(const Stream& stream, const bfloat16* unit, const bfloat16* b, float* held) {
  launch(multiply_once, {1, 32}, stream, unit, b, held);
}

void lesson_pipeline(const Stream& stream, bool waits, int n, const float* x, float* sum) {
  launch(sum_in_steps, {1, 32}, stream, waits, n, x, sum);
}

}  // namespace ringtape::RINGTAPE_TARGET
