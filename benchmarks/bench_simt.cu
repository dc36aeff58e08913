#include "kernels/common/kernel.h"
//
#include "benchmarks/bench_simt.h"

namespace ringtape::RINGTAPE_TARGET {

__global__ void relu(const float* x, float* y, std::int64_t n) {
  for_each_vec<float>(n, [&](std::int64_t i, auto lanes) {
    auto v = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) v[k] = maximum(v[k], 0.0f);
    store_vec(y + i, v);
  });
}

__global__ void axpy(float a, const float* x, float* y, std::int64_t n) {
  for_each_vec<float>(n, [&](std::int64_t i, auto lanes) {
    const auto vx = load_vec<lanes>(x + i);
    auto vy = load_vec<lanes>(y + i);
    for (int k = 0; k < lanes; ++k) vy[k] = fmaf(a, vx[k], vy[k]);
    store_vec(y + i, vy);
  });
}

__global__ void adam(const float* g, float* p, float* m, float* v, std::int64_t n) {
  for_each_vec<float>(n, [&](std::int64_t i, auto lanes) {
    const auto vg = load_vec<lanes>(g + i);
    auto vp = load_vec<lanes>(p + i);
    auto vm = load_vec<lanes>(m + i);
    auto vv = load_vec<lanes>(v + i);
    for (int k = 0; k < lanes; ++k) {
      vm[k] = 0.9f * vm[k] + 0.1f * vg[k];
      vv[k] = 0.999f * vv[k] + 0.001f * vg[k] * vg[k];
      vp[k] -= 1e-3f * vm[k] / (sqrtf(vv[k]) + 1e-8f);
    }
    store_vec(p + i, vp);
    store_vec(m + i, vm);
    store_vec(v + i, vv);
  });
}

struct Identity {
  __device__ float operator()(float x) const { return x; }
};
struct Square {
  __device__ float operator()(float x) const { return x * x; }
};

template <class F>
__global__ void sum_of(F f, const float* x, std::int64_t n, float* partial, unsigned* counter, float* total) {
  LaneSum<float> sum;
  for_each_vec<float>(n, [&](std::int64_t i, auto lanes, int slot) {
    const auto v = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) sum.add(slot + k, f(v[k]));
  });
  const float of_block = block_sum(sum.total());
  if (threadIdx.x == 0) partial[blockIdx.x] = of_block;
  if (!last_block_done(counter)) return;
  float mine = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) mine += partial[block];
  mine = block_sum(mine);
  if (threadIdx.x == 0) *total = mine;
}

__global__ void barriers(int count) {
  for (int i = 0; i < count; ++i) __syncthreads();
}

__global__ void block_sums(int count, float* out) {
  float value = 1;
  for (int i = 0; i < count; ++i) value = block_sum(value) * 0.5f;
  if (threadIdx.x == 0) out[blockIdx.x] = value;
}

__global__ void shuffles(int count, float* out) {
  float value = static_cast<float>(threadIdx.x);
  for (int i = 0; i < count; ++i) value += __shfl_xor_sync(0xffffffffu, value, 1);
  if (threadIdx.x == 0) out[blockIdx.x] = value;
}

void bench_relu(const Stream& stream, const float* x, float* y, std::int64_t n) {
  launch(relu, elementwise_shape(n), stream, x, y, n);
}

void bench_axpy(const Stream& stream, float a, const float* x, float* y, std::int64_t n) {
  launch(axpy, elementwise_shape(n), stream, a, x, y, n);
}

void bench_adam(const Stream& stream, const float* g, float* p, float* m, float* v, std::int64_t n) {
  launch(adam, elementwise_shape(n), stream, g, p, m, v, n);
}

void bench_sum(const Stream& stream, const float* x, std::int64_t n, float* partial, unsigned* counter,
               float* total) {
  launch(sum_of<Identity>, reduction_shape(n), stream, Identity{}, x, n, partial, counter, total);
}

void bench_sum_squares(const Stream& stream, const float* x, std::int64_t n, float* partial,
                       unsigned* counter, float* total) {
  launch(sum_of<Square>, reduction_shape(n), stream, Square{}, x, n, partial, counter, total);
}

void bench_barriers(const Stream& stream, int blocks, int threads, int count) {
  launch(barriers, {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)}, stream, count);
}

void bench_block_sums(const Stream& stream, int blocks, int threads, int count, float* out) {
  launch(block_sums, {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)}, stream, count, out);
}

void bench_shuffles(const Stream& stream, int blocks, int threads, int count, float* out) {
  launch(shuffles, {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)}, stream, count, out);
}

}  // namespace ringtape::RINGTAPE_TARGET
