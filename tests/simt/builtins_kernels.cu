#include "kernels/common/kernel.h"
//
#include "tests/simt/builtins_kernels.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void write_indices(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int* mine = out + 6 * (static_cast<int>(block) * block_threads() + thread_rank());
  mine[0] = static_cast<int>(blockIdx.x);
  mine[1] = static_cast<int>(blockIdx.y);
  mine[2] = static_cast<int>(blockIdx.z);
  mine[3] = static_cast<int>(threadIdx.x);
  mine[4] = static_cast<int>(threadIdx.y);
  mine[5] = static_cast<int>(threadIdx.z);
}

__global__ void reverse(const int* in, int* out) {
  int* values = dynamic_shared<int>();
  const unsigned last = blockDim.x - 1;
  values[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = values[last - threadIdx.x];
}

__global__ void use_last_byte(std::size_t bytes, int* out) {
  unsigned char* last = dynamic_shared<unsigned char>() + bytes - 1;
  if (threadIdx.x == 0) *last = 7;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = *last;
}

__global__ void rotate(int staying, int barriers, int* out) {
  __shared__ int places[1024];
  const int rank = thread_rank();
  if (rank >= staying) return;
  int value = rank;
  for (int i = 0; i < barriers; ++i) {
    places[rank] = value;
    __syncthreads();
    value = places[(rank + 1) % staying];
    __syncthreads();
  }
  out[rank] = value;
}

__global__ void shuffle_lanes(int* out) {
  constexpr unsigned kAll = 0xffffffffu;
  const int lane = static_cast<int>(threadIdx.x);
  const int value = 100 + lane;
  int* mine = out + 8 * lane;
  mine[0] = __shfl_sync(kAll, value, 5);
  mine[1] = __shfl_sync(kAll, value, 5, 8);
  mine[2] = __shfl_up_sync(kAll, value, 3);
  mine[3] = __shfl_up_sync(kAll, value, 3, 8);
  mine[4] = __shfl_down_sync(kAll, value, 3);
  mine[5] = __shfl_down_sync(kAll, value, 3, 8);
  mine[6] = __shfl_xor_sync(kAll, value, 17);
  mine[7] = static_cast<int>(__shfl_xor_sync(kAll, 0.5 * value, 6, 8) * 2);
}

__global__ void shuffle_halves(int rounds, int* out) {
  int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x < 16) {
    value = __shfl_xor_sync(0x0000ffffu, value, 1);
  } else {
    for (int i = 0; i < rounds; ++i) value += __shfl_xor_sync(0xffff0000u, value, 1);
  }
  __syncwarp();
  out[threadIdx.x] = value + __shfl_sync(0xffffffffu, value, 0);
}

__global__ void vote(const int* in, unsigned* out) {
  const int yes = in[threadIdx.x] > 0;
  unsigned* mine = out + 3 * threadIdx.x;
  mine[0] = __ballot_sync(0xffffffffu, yes);
  mine[1] = static_cast<unsigned>(__any_sync(0xffffffffu, yes) != 0);
  mine[2] = static_cast<unsigned>(__all_sync(0xffffffffu, yes) != 0);
}

template <class T>
__global__ void reduce(const T* in, T* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  T* mine = out + 4 * i;
  mine[0] = block_sum(in[i]);
  mine[1] = block_max(in[i]);
  mine[2] = warp_sum(in[i]);
  mine[3] = warp_max(in[i]);
}

__global__ void sum_grid(const float* x, std::int64_t n, float* partial, unsigned* counter, float* total) {
  LaneSum<float> sum;
  for_each_vec<float>(n, [&](std::int64_t i, auto lanes, int slot) {
    const auto v = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) sum.add(slot + k, v[k]);
  });
  const float of_block = block_sum(sum.total());
  if (threadIdx.x == 0) partial[blockIdx.x] = of_block;
  if (!last_block_done(counter)) return;
  float mine = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) mine += partial[block];
  mine = block_sum(mine);
  if (threadIdx.x == 0) *total = mine;
}

template <class T>
__global__ void count_visits(std::int64_t n, int* visits) {
  for_each_vec<T>(n, [&](std::int64_t i, auto lanes) {
    for (int k = 0; k < lanes; ++k) visits[i + k] += 1;
  });
}

__global__ void count_row_visits(std::int64_t columns, int* visits) {
  int* row = visits + blockIdx.x * columns;
  for_each_vec_in_block<float>(columns, [&](std::int64_t i, auto lanes) {
    for (int k = 0; k < lanes; ++k) row[i + k] += 1;
  });
}

template <class T>
__global__ void twice(const T* x, T* y, std::int64_t n) {
  for_each_vec<T>(n, [&](std::int64_t i, auto lanes) {
    auto v = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) v[k] = from_accumulate<T>(2 * to_accumulate(v[k]));
    store_vec(y + i, v);
  });
}

__global__ void count(int* a, unsigned* b, unsigned long long* c) {
  atomicAdd(a, 1);
  atomicAdd(b, 1u);
  atomicAdd(c, 1ull);
}

unsigned u(int value) {
  return static_cast<unsigned>(value);
}

}  // namespace

void test_indices(const Stream& stream, int gx, int gy, int gz, int bx, int by, int bz, int* out) {
  launch(write_indices, {{u(gx), u(gy), u(gz)}, {u(bx), u(by), u(bz)}}, stream, out);
}

void test_reverse(const Stream& stream, int n, const int* in, int* out) {
  launch(reverse, {1, u(n), sizeof(int) * u(n)}, stream, in, out);
}

void test_shared_memory(const Stream& stream, int n, std::size_t bytes, int* out) {
  launch(use_last_byte, {1, u(n), bytes}, stream, bytes, out);
}

void test_rotate(const Stream& stream, int n, int staying, int barriers, int* out) {
  launch(rotate, {1, u(n)}, stream, staying, barriers, out);
}

void test_shuffles(const Stream& stream, int* out) {
  launch(shuffle_lanes, {1, 32}, stream, out);
}

void test_partial_masks(const Stream& stream, int rounds, int* out) {
  launch(shuffle_halves, {1, 32}, stream, rounds, out);
}

void test_votes(const Stream& stream, const int* in, unsigned* out) {
  launch(vote, {1, 32}, stream, in, out);
}

void test_reductions(const Stream& stream, DType dtype, int blocks, int threads, const void* in, void* out) {
  const LaunchShape shape{u(blocks), u(threads)};
  if (dtype == DType::i64) {
    launch(reduce<std::int64_t>, shape, stream, static_cast<const std::int64_t*>(in),
           static_cast<std::int64_t*>(out));
  } else if (dtype == DType::f64) {
    launch(reduce<double>, shape, stream, static_cast<const double*>(in), static_cast<double*>(out));
  } else {
    launch(reduce<float>, shape, stream, static_cast<const float*>(in), static_cast<float*>(out));
  }
}

void test_sum(const Stream& stream, const float* x, std::int64_t n, float* partial, unsigned* counter,
              float* total) {
  launch(sum_grid, reduction_shape(n), stream, x, n, partial, counter, total);
}

void test_visits(const Stream& stream, DType dtype, std::int64_t n, int* visits) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T, launch(count_visits<T>, elementwise_shape<T>(n), stream, n, visits));
}

void test_row_visits(const Stream& stream, std::int64_t rows, std::int64_t columns, int* visits) {
  launch(count_row_visits, row_shape(rows, columns), stream, columns, visits);
}

void test_double(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t n) {
  RINGTAPE_DISPATCH_FLOATING(
      dtype, T,
      launch(twice<T>, elementwise_shape<T>(n), stream, static_cast<const T*>(x), static_cast<T*>(y), n));
}

void test_atomics(const Stream& stream, int blocks, int threads, int* a, unsigned* b, unsigned long long* c) {
  launch(count, {u(blocks), u(threads)}, stream, a, b, c);
}

}  // namespace ringtape::RINGTAPE_TARGET
