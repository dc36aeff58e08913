#include "kernels/common/kernel.h"

#include "core/philox.h"
#include "kernels/random.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Writes `draw` of counter offset + g to x[4 * g .. 4 * g + 3], for every group g of four elements.
template <class T, class Draw>
__device__ void for_each_counter(T* x, std::int64_t n, std::uint64_t seed, std::uint64_t offset,
                                 const Draw& draw) {
  const std::int64_t groups = ceil_div(n, 4);
  for_each_vec<Philox4>(groups, [=](std::int64_t group, auto) {
    const auto values = draw(philox4x32_10(seed, offset + static_cast<std::uint64_t>(group), 0));
    const std::int64_t first = 4 * group;
    if (first + 4 <= n) {
      Vec<T, 4> result;
      for (int k = 0; k < 4; ++k) result[k] = from_accumulate<T>(values[k]);
      store_vec(x + first, result);
    } else {
      for (int k = 0; first + k < n; ++k) x[first + k] = from_accumulate<T>(values[k]);
    }
  });
}

/// `value` rounded to the stored type.
template <class T>
__device__ float rounded_to(float value) {
  return static_cast<float>(to_accumulate(from_accumulate<T>(value)));
}

template <class T>
__global__ void uniform(T* x, std::int64_t n, float low, float high, std::uint64_t seed,
                        std::uint64_t offset) {
  for_each_counter(x, n, seed, offset, [=](Philox4 bits) {
    Vec<float, 4> values{
        {uniform_float(bits.x), uniform_float(bits.y), uniform_float(bits.z), uniform_float(bits.w)}};
    for (int k = 0; k < 4; ++k) {
      // One rounding here, on either target, and one to T; either may reach `high`.
      const float value = rounded_to<T>(fmaf(high - low, values[k], low));
      values[k] = value < high ? value : low;
    }
    return values;
  });
}

/// Two independent normal values from two words. In double, so that results of the two targets' libraries
/// differ only by the last rounding to float.
__device__ void box_muller(std::uint32_t word0, std::uint32_t word1, float mean, float std, float& first,
                           float& second) {
  const double u = (static_cast<double>(word0) + 0.5) * 2.3283064365386963e-10;  // in (0, 1): units of 2^-32
  const double angle = static_cast<double>(word1) * 1.4629180792671596e-9;       // 2 pi 2^-32
  const double radius = sqrt(-2.0 * log(u));
  first = static_cast<float>(mean + std * (radius * cos(angle)));
  second = static_cast<float>(mean + std * (radius * sin(angle)));
}

template <class T>
__global__ void normal(T* x, std::int64_t n, float mean, float std, std::uint64_t seed,
                       std::uint64_t offset) {
  for_each_counter(x, n, seed, offset, [=](Philox4 bits) {
    Vec<float, 4> values;
    box_muller(bits.x, bits.y, mean, std, values[0], values[1]);
    box_muller(bits.z, bits.w, mean, std, values[2], values[3]);
    return values;
  });
}

}  // namespace

void uniform(const Stream& stream, DType dtype, void* x, std::int64_t n, float low, float high,
             std::uint64_t seed, std::uint64_t offset) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(uniform<T>, elementwise_shape<Philox4>(ceil_div(n, 4)), stream,
                                    static_cast<T*>(x), n, low, high, seed, offset));
}

void normal(const Stream& stream, DType dtype, void* x, std::int64_t n, float mean, float std,
            std::uint64_t seed, std::uint64_t offset) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(normal<T>, elementwise_shape<Philox4>(ceil_div(n, 4)), stream,
                                    static_cast<T*>(x), n, mean, std, seed, offset));
}

}  // namespace ringtape::RINGTAPE_TARGET
