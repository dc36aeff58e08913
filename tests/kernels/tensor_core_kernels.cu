#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/common/tensor_core.h"
#include "tests/kernels/tensor_core_kernels.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void load(bool transposed, const std::uint16_t* matrices, unsigned* registers) {
  std::uint16_t* rows = dynamic_shared<std::uint16_t>();
  for (int i = threadIdx.x; i < 4 * 64; i += 32) rows[i] = matrices[i];
  __syncwarp();
  unsigned own[4];
  if (transposed) {
    load_matrices<true>(rows + threadIdx.x * 8, own);
  } else {
    load_matrices(rows + threadIdx.x * 8, own);
  }
  for (int i = 0; i < 4; ++i) registers[threadIdx.x * 4 + i] = own[i];
}

__global__ void multiply(const unsigned* a, const unsigned* b, float* sums) {
  const unsigned* my_a = a + threadIdx.x * 4;
  const unsigned* my_b = b + threadIdx.x * 2;
  float* my_sums = sums + threadIdx.x * 4;
  float own[4] = {my_sums[0], my_sums[1], my_sums[2], my_sums[3]};
  multiply_matrices(own, {my_a[0], my_a[1], my_a[2], my_a[3]}, {my_b[0], my_b[1]});
  for (int i = 0; i < 4; ++i) my_sums[i] = own[i];
}

__global__ void copy_async(bool waits, const float* from, float* first, float* second) {
  float* tile = dynamic_shared<float>();  // 2 x 256
  const int mine = threadIdx.x * 4, others = (threadIdx.x ^ 33) * 4;
  AsyncCopies copies;
  for (int group = 0; group < 2; ++group) {
    copies.copy(tile + group * 256 + mine, from + group * 256 + mine);
    copies.commit();
  }
  if (waits) copies.wait<1>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) first[mine + i] = tile[others + i];
  if (waits) copies.wait<0>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) second[mine + i] = tile[256 + others + i];
}

__global__ void copy_many(int count, bool in_groups, const float* from, float* to) {
  float* tile = dynamic_shared<float>();
  AsyncCopies copies;
  for (int i = 0; i < count; ++i) {
    copies.copy<4>(tile + i, from + i);
    if (in_groups) copies.commit();
  }
  copies.commit();
  copies.wait<0>();
  for (int i = 0; i < count; ++i) to[i] = tile[i];
}

}  // namespace

void test_load_matrices(const Stream& stream, bool transposed, const void* matrices, unsigned* registers) {
  launch(load, {1, 32, 4 * 64 * sizeof(std::uint16_t)}, stream, transposed,
         static_cast<const std::uint16_t*>(matrices), registers);
}

void test_multiply_matrices(const Stream& stream, const unsigned* a, const unsigned* b, float* sums) {
  launch(multiply, {1, 32}, stream, a, b, sums);
}

void test_async_copies(const Stream& stream, bool waits, const float* from, float* first, float* second) {
  launch(copy_async, {1, 64, 512 * sizeof(float)}, stream, waits, from, first, second);
}

void test_many_copies(const Stream& stream, int count, bool in_groups, const float* from, float* to) {
  launch(copy_many, {1, 1, static_cast<std::size_t>(count) * sizeof(float)}, stream, count, in_groups, from,
         to);
}

}  // namespace ringtape::RINGTAPE_TARGET
