#include "kernels/common/kernel.h"

#include <math.h>

#include "kernels/common/grid_sum.h"
#include "kernels/compress.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

__global__ void find_largest_abs(const float* x, std::int64_t n, float* result, ReduceScratch* scratch) {
  LaneReduction<Max, float> largest;
  for_each_vec<float>(n, [&](std::int64_t i, auto lanes, int slot) {
    const auto values = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) {
      const float value = fabsf(values[k]);
      largest.add(slot + k, value == value ? value : INFINITY);
    }
  });
  const double of_block = block_reduce<Max>(static_cast<double>(largest.total()), SourceLocation::here());
  double total;
  if (grid_reduce<Max>(of_block, scratch, total) && threadIdx.x == 0) *result = static_cast<float>(total);
}

/// The power of two by which elements are multiplied.
__device__ float factor_of(const CompressionScale& scale) {
  if (scale.largest == nullptr) return 1;
  const float bound = *scale.largest * static_cast<float>(scale.world_size);
  if (bound == 0 || !isfinite(bound)) return 1;
  // bound < 2^(ilogb + 1), so the product is less than 2^15. A factor of at most 2^126 has a normal inverse.
  return ldexpf(1, minimum(14 - ilogbf(bound), 126));
}

template <class T>
__global__ void compress(const float* x, std::int64_t n, CompressionScale scale, float* residual, T* y) {
  const float factor = factor_of(scale), inverse = 1 / factor;
  for_each_vec<float>(n, [=](std::int64_t i, auto lanes) {
    auto values = load_vec<lanes>(x + i);
    Vec<T, lanes> sent;
    if (residual != nullptr) {
      const auto kept = load_vec<lanes>(residual + i);
      for (int k = 0; k < lanes; ++k) values[k] += kept[k];
    }
    for (int k = 0; k < lanes; ++k) sent[k] = from_accumulate<T>(values[k] * factor);
    if (residual != nullptr) {
      for (int k = 0; k < lanes; ++k) {
        const float received = to_accumulate(sent[k]) * inverse;
        values[k] = isfinite(received) ? values[k] - received : 0.0f;
      }
      store_vec(residual + i, values);
    }
    store_vec(y + i, sent);
  });
}

template <class T>
__global__ void decompress(const T* y, std::int64_t n, CompressionScale scale, float* x) {
  const float inverse = 1 / factor_of(scale);
  for_each_vec<float>(n, [=](std::int64_t i, auto lanes) {
    const auto received = load_vec<lanes>(y + i);
    Vec<float, lanes> values;
    for (int k = 0; k < lanes; ++k) values[k] = to_accumulate(received[k]) * inverse;
    store_vec(x + i, values);
  });
}

/// Runs a statement with T standing for the 16-bit type that `dtype` names.
#define RINGTAPE_DISPATCH_HALF(dtype, T, ...)                \
  do {                                                       \
    switch (dtype) {                                         \
      RINGTAPE_CASE(bf16, bfloat16, T, __VA_ARGS__)          \
      RINGTAPE_CASE(f16, float16, T, __VA_ARGS__)            \
      default:                                               \
        ::ringtape::fail_unsupported_dtype(__func__, dtype); \
    }                                                        \
  } while (false)

}  // namespace

void largest_abs(const Stream& stream, const float* x, std::int64_t n, float* result) {
  launch(find_largest_abs, grid_sum_shape<float>(n), stream, x, n, result, reduce_scratch(stream));
}

void compress(const Stream& stream, const float* x, std::int64_t n, const CompressionScale& scale,
              float* residual, DType to, void* y) {
  RINGTAPE_DISPATCH_HALF(
      to, T,
      launch(compress<T>, elementwise_shape<float>(n), stream, x, n, scale, residual, static_cast<T*>(y)));
}

void decompress(const Stream& stream, DType from, const void* y, std::int64_t n,
                const CompressionScale& scale, float* x) {
  RINGTAPE_DISPATCH_HALF(
      from, T,
      launch(decompress<T>, elementwise_shape<float>(n), stream, static_cast<const T*>(y), n, scale, x));
}

}  // namespace ringtape::RINGTAPE_TARGET
