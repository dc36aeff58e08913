#include "kernels/common/kernel.h"
//
#include "kernels/common/async_copy.h"
#include "kernels/common/vec.h"
#include "tests/gpu_model/alignment_kernels.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <int N>
__global__ void load(const float* from, float* to) {
  *to = load_aligned<N>(from)[N - 1];
}

__global__ void load_any(const float* from, float* to) {
  *to = load_vec<4>(from)[3];
}

__global__ void store_four(float* to) {
  store_aligned(to, Vec<float, 4>{{1, 2, 3, 4}});
}

__global__ void copy_part(const float* from, int bytes, float* to) {
  float* const shared = dynamic_shared<float>();
  AsyncCopies copies;
  copies.copy(shared, from, bytes);
  copies.commit();
  copies.wait<0>();
  *to = shared[0];
}

}  // namespace

void test_load_four(const Stream& stream, const float* from, float* to) {
  launch(load<4>, {1, 1}, stream, from, to);
}
void test_load_two(const Stream& stream, const float* from, float* to) {
  launch(load<2>, {1, 1}, stream, from, to);
}
void test_load_any(const Stream& stream, const float* from, float* to) {
  launch(load_any, {1, 1}, stream, from, to);
}
void test_store_four(const Stream& stream, float* to) {
  launch(store_four, {1, 1}, stream, to);
}
void test_copy_part(const Stream& stream, const float* from, int bytes, float* to) {
  launch(copy_part, {1, 1, 16}, stream, from, bytes, to);
}

}  // namespace ringtape::RINGTAPE_TARGET
