#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "tests/analysis/textbook.h"

// Comments that begin with "at:" are how the tests find a line's number.
namespace ringtape::RINGTAPE_TARGET {
namespace {

__device__ int lane() {
  return static_cast<int>(threadIdx.x);
}

__global__ void read_strided(const float* in, int stride, int offset, float* out) {
  const float value = in[offset + stride * lane()];  // at: strided read
  out[lane()] = value;
}

__global__ void read_vectors(const float* in, int stride, int offset, float* out) {
  const auto value = load_vec<4>(in + offset + stride * lane());  // at: vector read
  store_vec(out + 4 * lane(), value);                             // at: vector write
}

__global__ void shared_strided(int stride, float* out) {
  float* words = dynamic_shared<float>();
  words[stride * lane()] = 1;            // at: shared write
  out[lane()] = words[stride * lane()];  // at: shared read
}

template <int kWidth>
__global__ void shared_vectors(int stride, float* out) {
  float* words = dynamic_shared<float>();
  const Vec<float, kWidth> ones{};
  store_vec(words + stride * lane(), ones);                      // at: shared vector write
  const auto value = load_vec<kWidth>(words + stride * lane());  // at: shared vector read
  store_vec(out + kWidth * lane(), value);
}

__global__ void shared_broadcast(float* out) {
  float* words = dynamic_shared<float>();
  if (lane() == 0) words[7] = 1;
  __syncwarp();
  out[lane()] = words[7];  // at: shared broadcast
}

__global__ void uneven_loop(const float* in, float* out) {
  float sum = 0;
  const volatile float* from = in;
  for (int i = 0; i < lane(); ++i) sum += from[lane()];  // at: uneven read
  out[lane()] = sum;
}

__global__ void two_ways(int split, const float* in, float* out) {
  const volatile float* from = in;
  if (lane() < split) {  // at: two ways
    out[lane()] = from[lane()];
  } else {
    out[lane()] = from[0] * from[1];
  }
}

__global__ void count_blocks(unsigned* count) {
  __syncthreads();                             // at: first barrier
  __syncthreads();                             // at: second barrier
  if (threadIdx.x == 0) atomicAdd(count, 1u);  // at: atomic
}

__global__ void neighbours(bool with_barrier, float* out) {
  float* words = dynamic_shared<float>();
  words[threadIdx.x] = 1;  // at: race write
  if (with_barrier) __syncthreads();
  out[threadIdx.x] = words[threadIdx.x ^ 1];  // at: race read
}

__global__ void warp_neighbours(bool with_syncwarp, float* out) {
  float* words = dynamic_shared<float>();
  words[threadIdx.x] = 1;  // at: warp write
  if (with_syncwarp) {
    __syncwarp();
  } else {
    __shfl_xor_sync(0xffffffffu, 1, 1);
  }
  out[threadIdx.x] = words[threadIdx.x ^ 1];  // at: warp read
}

__global__ void neighbours_after_reduction(float* out) {
  float* words = dynamic_shared<float>();
  words[threadIdx.x] = 1;
  const float sum = block_sum(1.0f);
  out[threadIdx.x] = sum + words[threadIdx.x ^ 1];
}

__global__ void overwrites(bool with_barrier, float* out) {
  float* words = dynamic_shared<float>();
  if (threadIdx.x == 0) words[0] = 1;
  __syncthreads();
  out[threadIdx.x] = words[0];  // at: overwritten read
  if (with_barrier) __syncthreads();
  if (threadIdx.x == 0) words[0] = 2;  // at: overwriting write
}

__global__ void unwritten_shared(float* out) {
  __shared__ float words[64];
  words[2 * lane()] = 1;
  __syncthreads();
  out[lane()] = words[lane()];  // at: unwritten shared read
}

__global__ void copy(const float* in, float* out, int offset) {
  const float value = in[lane()];  // at: copy read
  out[lane() + offset] = value;    // at: copy write
}

__global__ void one_parts(int which, const float* in, float* out) {
  const volatile float* from = in;
  if (lane() == which) {
    out[lane()] = from[lane()];
  } else {
    out[lane()] = from[0] * from[1];
  }
}

__global__ void two_reductions(float* out) {
  const float largest = block_max(static_cast<float>(threadIdx.x));
  const double sum = block_sum(1.0);
  if (threadIdx.x < 32) out[threadIdx.x] = largest + static_cast<float>(sum);
}

__global__ void shuffle_down(const float* in, float* out) {
  out[lane()] = __shfl_down_sync(0xffffffffu, in[lane()], 16) + __shfl_up_sync(0xffffffffu, in[lane()], 3);
}

__device__ volatile float table[32] = {1};

__global__ void read_table(float* out) {
  out[lane()] = table[lane()];  // at: table read
}

__global__ void late_reader(float* out) {
  float* words = dynamic_shared<float>();
  if (lane() == 0) words[0] = 1;
  __syncwarp();
  out[lane()] = words[0];  // at: every lane's read
  __shfl_xor_sync(0xffffffffu, 1, 1);
  if (lane() == 0) words[0] = 2;  // at: first lane's write
}

__global__ void half_warps(int neighbour, float* out) {
  float* words = dynamic_shared<float>();
  words[lane()] = 1;
  __syncwarp(lane() < 16 ? 0x0000ffffu : 0xffff0000u);
  out[lane()] = words[lane() ^ neighbour];
}

__global__ void left_by_another_block(float* out) {
  float* words = dynamic_shared<float>();
  if (blockIdx.x == 0) words[lane()] = 1;
  out[blockIdx.x * 32 + lane()] = words[lane()];  // at: another block's
}

__global__ void shared_count(bool from_zero, float* out) {
  __shared__ unsigned count;
  if (from_zero && threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1u);  // at: shared atomic
  __syncthreads();
  out[threadIdx.x] = static_cast<float>(count);
}

__global__ void copies_ahead(int buffers, bool with_barriers, const float* in, float* out) {
  __shared__ Vec<float, 4> words[2][32];
  AsyncCopies copies;
  copies.copy(&words[0][lane()], in + 4 * lane());
  copies.commit();
  copies.wait<0>();
  __syncthreads();
  copies.copy(&words[buffers - 1][lane()], in + 128 + 4 * lane());  // at: copy ahead
  copies.commit();
  if (with_barriers) __syncthreads();
  const float value = words[0][lane() ^ 1][0];  // at: read while copying
  if (with_barriers) __syncthreads();
  copies.wait<0>();
  __syncthreads();
  out[lane()] = value + words[buffers - 1][lane() ^ 1][0];
}

__global__ void bad_transpose(const float* in, float* out, int n) {
  float* tile = dynamic_shared<float>();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  tile[y * 32 + x] = in[y * n + x];
  __syncthreads();
  const float value = tile[x * 32 + y];  // at: planted conflict
  out[x * n + y] = value;                // at: planted uncoalesced
}

}  // namespace

void book_read_strided(const Stream& stream, const float* in, int stride, int offset, float* out) {
  launch(read_strided, {1, 32}, stream, in, stride, offset, out);
}
void book_read_vectors(const Stream& stream, const float* in, int stride, int offset, float* out) {
  launch(read_vectors, {1, 32}, stream, in, stride, offset, out);
}
void book_shared_strided(const Stream& stream, int stride, float* out) {
  launch(shared_strided, {1, 32, 32 * 33 * sizeof(float)}, stream, stride, out);
}
void book_shared_pairs(const Stream& stream, int stride, float* out) {
  launch(shared_vectors<2>, {1, 32, 32 * 33 * sizeof(float)}, stream, stride, out);
}
void book_shared_vectors(const Stream& stream, int stride, float* out) {
  launch(shared_vectors<4>, {1, 32, 32 * 36 * sizeof(float)}, stream, stride, out);
}
void book_shared_broadcast(const Stream& stream, float* out) {
  launch(shared_broadcast, {1, 32, 32 * sizeof(float)}, stream, out);
}
void book_uneven_loop(const Stream& stream, const float* in, float* out) {
  launch(uneven_loop, {1, 32}, stream, in, out);
}
void book_two_ways(const Stream& stream, int split, const float* in, float* out) {
  launch(two_ways, {1, 64}, stream, split, in, out);
}
void book_count(const Stream& stream, int blocks, unsigned* count) {
  launch(count_blocks, {static_cast<unsigned>(blocks), 96}, stream, count);
}
void book_neighbours(const Stream& stream, bool with_barrier, float* out) {
  launch(neighbours, {1, 64, 64 * sizeof(float)}, stream, with_barrier, out);
}
void book_warp_neighbours(const Stream& stream, bool with_syncwarp, float* out) {
  launch(warp_neighbours, {1, 32, 32 * sizeof(float)}, stream, with_syncwarp, out);
}
void book_overwrites(const Stream& stream, bool with_barrier, float* out) {
  launch(overwrites, {1, 64, sizeof(float)}, stream, with_barrier, out);
}
void book_unwritten_shared(const Stream& stream, float* out) {
  launch(unwritten_shared, {1, 32}, stream, out);
}
void book_copy(const Stream& stream, const float* in, float* out, int offset) {
  launch(copy, {1, 32}, stream, in, out, offset);
}
void book_one_parts(const Stream& stream, int which, const float* in, float* out) {
  launch(one_parts, {1, 32}, stream, which, in, out);
}
void book_shuffle_down(const Stream& stream, const float* in, float* out) {
  launch(shuffle_down, {1, 32}, stream, in, out);
}
void book_neighbours_after_reduction(const Stream& stream, int threads, float* out) {
  launch(neighbours_after_reduction, {1, threads, static_cast<std::size_t>(threads) * sizeof(float)}, stream,
         out);
}
void book_two_reductions(const Stream& stream, float* out) {
  launch(two_reductions, {1, 1024}, stream, out);
}
void book_read_table(const Stream& stream, float* out) {
  launch(read_table, {1, 32}, stream, out);
}
void book_late_reader(const Stream& stream, float* out) {
  launch(late_reader, {1, 32, sizeof(float)}, stream, out);
}
void book_half_warps(const Stream& stream, int neighbour, float* out) {
  launch(half_warps, {1, 32, 32 * sizeof(float)}, stream, neighbour, out);
}
void book_left_by_another_block(const Stream& stream, float* out) {
  launch(left_by_another_block, {2, 32, 32 * sizeof(float)}, stream, out);
}
void book_shared_count(const Stream& stream, bool from_zero, float* out) {
  launch(shared_count, {1, 64}, stream, from_zero, out);
}
void book_copies_ahead(const Stream& stream, int buffers, bool with_barriers, const float* in, float* out) {
  launch(copies_ahead, {1, 32}, stream, buffers, with_barriers, in, out);
}
void book_bad_transpose(const Stream& stream, const float* in, float* out, int n) {
  launch(bad_transpose, {1, {32, 32}, 32 * 32 * sizeof(float)}, stream, in, out, n);
}

}  // namespace ringtape::RINGTAPE_TARGET
