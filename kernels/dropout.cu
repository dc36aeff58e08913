#include "kernels/common/kernel.h"

#include "core/philox.h"
#include "kernels/dropout.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T>
__global__ void dropout(const T* x, T* y, std::int64_t n, float p, accumulate_t<T> scale, std::uint64_t seed,
                        std::uint64_t offset) {
  const auto drawn = [=](std::int64_t group) {
    const Philox4 bits = philox4x32_10(seed, offset + static_cast<std::uint64_t>(group), 0);
    return Vec<float, 4>{
        {uniform_float(bits.x), uniform_float(bits.y), uniform_float(bits.z), uniform_float(bits.w)}};
  };
  const auto result = [=](T value, float r) {
    return from_accumulate<T>(r < p ? 0 : scale * to_accumulate(value));
  };
  const std::int64_t whole = n / 4;
  for_each_vec<Philox4>(whole, [=](std::int64_t group, auto) {
    auto values = load_vec<4>(x + 4 * group);
    const auto r = drawn(group);
    for (int k = 0; k < 4; ++k) values[k] = result(values[k], r[k]);
    store_vec(y + 4 * group, values);
  });
  if (blockIdx.x == 0 && threadIdx.x == 0 && n % 4 != 0) {
    const auto r = drawn(whole);
    for (int k = 0; k < n % 4; ++k) y[4 * whole + k] = result(x[4 * whole + k], r[k]);
  }
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
