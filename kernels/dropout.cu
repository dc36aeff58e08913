#include "kernels/common/kernel.h"

#include "core/philox.h"
#include "kernels/dropout.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T>
__global__ void dropout(const T* x, T* y, std::int64_t n, float p, accumulate_t<T> scale, std::uint64_t seed,
                        std::uint64_t offset) {
  for_each_vec<Philox4>(ceil_div(n, 4), [=](std::int64_t group, auto) {
    const Philox4 bits = philox4x32_10(seed, offset + static_cast<std::uint64_t>(group), 0);
    const Vec<float, 4> drawn{
        {uniform_float(bits.x), uniform_float(bits.y), uniform_float(bits.z), uniform_float(bits.w)}};
    const std::int64_t first = 4 * group;
    const auto result = [=](T value, float r) {
      return from_accumulate<T>(r < p ? 0 : scale * to_accumulate(value));
    };
    if (first + 4 <= n) {
      auto values = load_vec<4>(x + first);
      for (int k = 0; k < 4; ++k) values[k] = result(values[k], drawn[k]);
      store_vec(y + first, values);
    } else {
      for (int k = 0; first + k < n; ++k) y[first + k] = result(x[first + k], drawn[k]);
    }
  });
}

}  // namespace

void dropout(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t n, double p,
             std::uint64_t seed, std::uint64_t offset) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(dropout<T>, elementwise_shape<Philox4>(ceil_div(n, 4)), stream,
                                    static_cast<const T*>(x), static_cast<T*>(y), n, static_cast<float>(p),
                                    static_cast<accumulate_t<T>>(1 / (1 - p)), seed, offset));
}

}  // namespace ringtape::RINGTAPE_TARGET
