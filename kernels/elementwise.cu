#include "kernels/common/kernel.h"

#include "kernels/common/store_result.h"
#include "kernels/elementwise.h"

namespace ringtape::RINGTAPE_TARGET {
namespace {

/// Runs a statement with T standing for the element type that `dtype` names, integers included.
#define RINGTAPE_DISPATCH_ANY(dtype, T, ...)               \
  do {                                                     \
    switch (dtype) {                                       \
      RINGTAPE_CASE(i32, std::int32_t, T, __VA_ARGS__)     \
      RINGTAPE_CASE(i64, std::int64_t, T, __VA_ARGS__)     \
      RINGTAPE_CASE(u8, std::uint8_t, T, __VA_ARGS__)      \
      default:                                             \
        RINGTAPE_DISPATCH_FLOATING(dtype, T, __VA_ARGS__); \
    }                                                      \
  } while (false)

template <class T>
struct IsHalf {
  static constexpr bool value = false;
};
template <>
struct IsHalf<bfloat16> {
  static constexpr bool value = true;
};
template <>
struct IsHalf<float16> {
  static constexpr bool value = true;
};

/// Converts `value` to To, for any two element types.
template <class To, class From>
RINGTAPE_HOST_DEVICE To convert(From value) {
  if constexpr (IsHalf<From>::value) {
    return convert<To>(to_float(value));
  } else if constexpr (IsHalf<To>::value) {
    return from_accumulate<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class T>
__global__ void fill(T* x, std::int64_t n, T value) {
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    Vec<T, lanes> values;
    for (int k = 0; k < lanes; ++k) values[k] = value;
    store_vec(x + i, values);
  });
}

template <class T>
__global__ void arange(T* x, std::int64_t n, double start, double step) {
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    Vec<T, lanes> values;
    for (int k = 0; k < lanes; ++k) values[k] = convert<T>(start + static_cast<double>(i + k) * step);
    store_vec(x + i, values);
  });
}

template <class From, class To>
__global__ void cast(const From* x, To* y, std::int64_t n) {
  for_each_vec<Wider<From, To>>(n, [=](std::int64_t i, auto lanes) {
    const auto values = load_vec<lanes>(x + i);
    Vec<To, lanes> converted;
    for (int k = 0; k < lanes; ++k) converted[k] = convert<To>(values[k]);
    store_vec(y + i, converted);
  });
}

template <class From, class To>
__global__ void cast_accumulate(const From* x, To* y, std::int64_t n) {
  for_each_vec<Wider<From, To>>(n, [=](std::int64_t i, auto lanes) {
    const auto values = load_vec<lanes>(x + i);
    Vec<accumulate_t<To>, lanes> converted;
    for (int k = 0; k < lanes; ++k) converted[k] = convert<accumulate_t<To>>(values[k]);
    store_result(y + i, converted, true);
  });
}

template <class T>
__global__ void scale_by_device(T* x, std::int64_t n, const float* factor) {
  const float alpha = *factor;
  if (alpha == 1) return;
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    auto values = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) values[k] = from_accumulate<T>(alpha * to_accumulate(values[k]));
    store_vec(x + i, values);
  });
}

template <class T>
__global__ void divide_by(T* x, std::int64_t n, accumulate_t<T> divisor) {
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    auto values = load_vec<lanes>(x + i);
    for (int k = 0; k < lanes; ++k) values[k] = from_accumulate<T>(to_accumulate(values[k]) / divisor);
    store_vec(x + i, values);
  });
}

template <class T>
__global__ void normalize_pixels(const std::uint8_t* x, T* y, std::int64_t n, accumulate_t<T> mean,
                                 accumulate_t<T> std) {
  using A = accumulate_t<T>;
  for_each_vec<T>(n, [=](std::int64_t i, auto lanes) {
    const auto pixels = load_vec<lanes>(x + i);
    Vec<A, lanes> values;
    for (int k = 0; k < lanes; ++k) values[k] = (static_cast<A>(pixels[k]) / 255 - mean) / std;
    store_result(y + i, values, false);
  });
}

}  // namespace

void fill(const Stream& stream, DType dtype, void* x, std::int64_t n, double value) {
  RINGTAPE_DISPATCH_ANY(
      dtype, T, launch(fill<T>, elementwise_shape<T>(n), stream, static_cast<T*>(x), n, convert<T>(value)));
}

void arange(const Stream& stream, DType dtype, void* x, std::int64_t n, double start, double step) {
  RINGTAPE_DISPATCH_ANY(
      dtype, T, launch(arange<T>, elementwise_shape<T>(n), stream, static_cast<T*>(x), n, start, step));
}

void cast(const Stream& stream, DType from, const void* x, DType to, void* y, std::int64_t n,
          bool accumulate) {
  if (accumulate) {
    RINGTAPE_DISPATCH_FLOATING(
        to, To,
        RINGTAPE_DISPATCH_FLOATING(from, From,
                                   launch(cast_accumulate<From, To>, elementwise_shape<Wider<From, To>>(n),
                                          stream, static_cast<const From*>(x), static_cast<To*>(y), n)));
    return;
  }
  RINGTAPE_DISPATCH_ANY(
      from, From,
      RINGTAPE_DISPATCH_ANY(to, To,
                            launch(cast<From, To>, elementwise_shape<Wider<From, To>>(n), stream,
                                   static_cast<const From*>(x), static_cast<To*>(y), n)));
}

void scale_by_device(const Stream& stream, DType dtype, void* x, std::int64_t n, const float* factor) {
  RINGTAPE_DISPATCH_FLOATING(
      dtype, T, launch(scale_by_device<T>, elementwise_shape<T>(n), stream, static_cast<T*>(x), n, factor));
}

namespace {

template <class T>
void launch_divide_by(const Stream& stream, void* x, std::int64_t n, double divisor) {
  launch(divide_by<T>, elementwise_shape<T>(n), stream, static_cast<T*>(x), n,
         static_cast<accumulate_t<T>>(divisor));
}

}  // namespace

void divide_by(const Stream& stream, DType dtype, void* x, std::int64_t n, double divisor) {
  if (dtype == DType::f64) return launch_divide_by<double>(stream, x, n, divisor);  // on a GPU too
  RINGTAPE_DISPATCH_FLOATING(dtype, T, launch_divide_by<T>(stream, x, n, divisor));
}

void normalize_u8(const Stream& stream, const std::uint8_t* x, DType to, void* y, std::int64_t n, double mean,
                  double std) {
  RINGTAPE_DISPATCH_FLOATING(
      to, T,
      launch(normalize_pixels<T>, elementwise_shape<T>(n), stream, x, static_cast<T*>(y), n,
             static_cast<accumulate_t<T>>(mean), static_cast<accumulate_t<T>>(std)));
}

}  // namespace ringtape::RINGTAPE_TARGET
