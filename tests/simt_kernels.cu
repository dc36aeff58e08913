#include "kernels/kernel.h"
#include "tests/simt_kernels.h"

namespace ringtape::RINGTAPE_TARGET {

__global__ void sum_kernel(const float* x, std::int64_t n, float* partial, unsigned* counter, float* total) {
  LaneSum<float> sum;
  for_each_vec<float>(n, [&](std::int64_t i, auto lanes, int slot) {
    const auto v = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) sum.add(slot + k, v[k]);
  });
  const float block_total = block_sum(sum.total());
  if (threadIdx.x == 0) partial[blockIdx.x] = block_total;
  if (!last_block_done(counter)) return;
  float mine = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) mine += partial[i];
  mine = block_sum(mine);
  if (threadIdx.x == 0) *total = mine;
}

void test_sum(const Stream& stream, const float* x, std::int64_t n, float* partial, unsigned* counter,
              float* total) {
  launch(sum_kernel, reduction_shape(n), stream, x, n, partial, counter, total);
}

template <class T>
__global__ void relu_kernel(const T* x, T* y, std::int64_t n) {
  for_each_vec<T>(n, [&](std::int64_t i, auto lanes) {
    auto v = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) {
      const auto value = to_accumulate(v[k]);
      v[k] = from_accumulate<T>(value < 0 ? 0 : value);
    }
    store_vec(y + i, v);
  });
}

void test_relu(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t n) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(relu_kernel<T>, elementwise_shape<T>(n), stream, static_cast<const T*>(x),
                                    static_cast<T*>(y), n));
}

}  // namespace ringtape::RINGTAPE_TARGET
