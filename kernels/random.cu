#include "kernels/common/kernel.h"

#include "kernels/common/box_muller.h"
#include "kernels/counters.h"
#include "kernels/random.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Writes `draw` of counter offset + g to x[4 * g .. 4 * g + 3], for every group g of four elements.
template <class T, class Draw>
__device__ void write_draws(T* x, std::int64_t n, std::uint64_t seed, std::uint64_t offset,
                            const Draw& draw) {
  for_each_counter(n, is_aligned<Vec<T, 4>>(x), [=](std::int64_t group, auto elements) {
    const auto values = draw(philox4x32_10(seed, offset + static_cast<std::uint64_t>(group), 0));
    Vec<T, 4> result;
    for (int k = 0; k < 4; ++k) result[k] = from_accumulate<T>(values[k]);
    elements.store(x + 4 * group, result);
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
  write_draws(x, n, seed, offset, [=](Philox4 bits) {
    Vec<float, 4> values{
        {uniform_float(bits.x), uniform_float(bits.y), uniform_float(bits.z), uniform_float(bits.w)}};
    for (int k = 0; k < 4; ++k) {
      // Rounded once here, the same on every target, and once to T; either rounding may reach `high`.
      const float value = rounded_to<T>(fmaf(high - low, values[k], low));
      values[k] = value < high ? value : low;
    }
    return values;
  });
}

template <class T>
__global__ void normal(T* x, std::int64_t n, float mean, float std, std::uint64_t seed,
                       std::uint64_t offset) {
  write_draws(x, n, seed, offset, [=](Philox4 bits) {
    const NormalPair front = normal_pair(bits.x, bits.y, mean, std);
    const NormalPair back = normal_pair(bits.z, bits.w, mean, std);
    return Vec<float, 4>{{front.first, front.second, back.first, back.second}};
  });
}

}  // namespace

void uniform(const Stream& stream, DType dtype, void* x, std::int64_t n, float low, float high,
             std::uint64_t seed, std::uint64_t offset) {
  RINGTAPE_DISPATCH_FLOATING(
      dtype, T,
      launch(uniform<T>, counters_shape(n), stream, static_cast<T*>(x), n, low, high, seed, offset));
}

void normal(const Stream& stream, DType dtype, void* x, std::int64_t n, float mean, float std,
            std::uint64_t seed, std::uint64_t offset) {
  RINGTAPE_DISPATCH_FLOATING(
      dtype, T, launch(normal<T>, counters_shape(n), stream, static_cast<T*>(x), n, mean, std, seed, offset));
}

}  // namespace ringtape::RINGTAPE_TARGET
