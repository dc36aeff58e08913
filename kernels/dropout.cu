#include "kernels/common/kernel.h"

#include "kernels/counters.h"
#include "kernels/dropout.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T>
__global__ void dropout(const T* x, T* y, std::int64_t n, float p, accumulate_t<T> scale, std::uint64_t seed,
                        std::uint64_t offset) {
  for_each_counter(n, is_aligned<Vec<T, 4>>(y), [=](std::int64_t group, auto elements) {
    auto values = elements.load(x + 4 * group);
    const Philox4 bits = philox4x32_10(seed, offset + static_cast<std::uint64_t>(group), 0);
    const Vec<float, 4> drawn{
        {uniform_float(bits.x), uniform_float(bits.y), uniform_float(bits.z), uniform_float(bits.w)}};
    for (int k = 0; k < 4; ++k) {
      values[k] = from_accumulate<T>(drawn[k] < p ? 0 : scale * to_accumulate(values[k]));
    }
    elements.store(y + 4 * group, values);
  });
}

}  // namespace

void dropout(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t n, double p,
             std::uint64_t seed, std::uint64_t offset) {
  RINGTAPE_DISPATCH_FLOATING(
      dtype, T,
      launch(dropout<T>, counters_shape(n), stream, static_cast<const T*>(x), static_cast<T*>(y), n,
             static_cast<float>(p), static_cast<accumulate_t<T>>(1 / (1 - p)), seed, offset));
}

}  // namespace ringtape::RINGTAPE_TARGET
