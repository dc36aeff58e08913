#include "kernels/common/kernel.h"

#include "kernels/common/store_result.h"
#include "kernels/relu.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

template <class T>
__global__ void relu_forward(const T* x, T* y, std::int64_t n) {
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    auto values = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) {
      const auto value = to_accumulate(values[k]);
      values[k] = from_accumulate<T>(value <= 0 ? 0 : value);
    }
    store_vec(y + i, values);
  });
}

template <class T, bool kAccumulate>
__global__ void relu_backward(const T* y, const T* dy, T* dx, std::int64_t n) {
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    const auto outputs = load_vec<lanes>(y + i);
    const auto upstream = load_vec<lanes>(dy + i);
    Vec<accumulate_t<T>, lanes> gradients;
    for (int k = 0; k < lanes; ++k) {
      gradients[k] = to_accumulate(outputs[k]) <= 0 ? 0 : to_accumulate(upstream[k]);
    }
    store_result(dx + i, gradients, kAccumulate);
  });
}

}  // namespace

void relu_forward(const Stream& stream, DType dtype, const void* x, void* y, std::int64_t n) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T,
                             launch(relu_forward<T>, elementwise_shape<T>(n), stream,
                                    static_cast<const T*>(x), static_cast<T*>(y), n));
}

void relu_backward(const Stream& stream, DType dtype, const void* y, const void* dy, void* dx, std::int64_t n,
                   bool accumulate) {
  RINGTAPE_DISPATCH_FLOATING(dtype, T, {
    const T* outputs = static_cast<const T*>(y);
    const T* upstream = static_cast<const T*>(dy);
    T* gradients = static_cast<T*>(dx);
    if (accumulate) {
      launch(relu_backward<T, true>, elementwise_shape<T>(n), stream, outputs, upstream, gradients, n);
    } else {
      launch(relu_backward<T, false>, elementwise_shape<T>(n), stream, outputs, upstream, gradients, n);
    }
  });
}

}  // namespace ringtape::RINGTAPE_TARGET
