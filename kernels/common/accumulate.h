#pragma once

#include "core/half.h"
#include "core/target.h"

/// The accumulation type of each element type, and conversions between the two.
namespace ringtape::RINGTAPE_TARGET {

template <class T>
struct Accumulate {
  using type = float;
};
template <>
struct Accumulate<double> {
  using type = double;
};

/// The accumulation type of elements of type T: float, and double for double.
template <class T>
using accumulate_t = typename Accumulate<T>::type;

RINGTAPE_HOST_DEVICE inline float to_accumulate(float value) {
  return value;
}
RINGTAPE_HOST_DEVICE inline double to_accumulate(double value) {
  return value;
}
RINGTAPE_HOST_DEVICE inline float to_accumulate(bfloat16 value) {
  return to_float(value);
}
RINGTAPE_HOST_DEVICE inline float to_accumulate(float16 value) {
  return to_float(value);
}

template <class T>
struct FromAccumulate;
template <>
struct FromAccumulate<float> {
  RINGTAPE_HOST_DEVICE static float convert(float value) { return value; }
};
template <>
struct FromAccumulate<double> {
  RINGTAPE_HOST_DEVICE static double convert(double value) { return value; }
};
template <>
struct FromAccumulate<bfloat16> {
  RINGTAPE_HOST_DEVICE static bfloat16 convert(float value) { return to_bfloat16(value); }
};
template <>
struct FromAccumulate<float16> {
  RINGTAPE_HOST_DEVICE static float16 convert(float value) { return to_float16(value); }
};

/// Rounds to the element type, to nearest even.
template <class T>
RINGTAPE_HOST_DEVICE inline T from_accumulate(accumulate_t<T> value) {
  return FromAccumulate<T>::convert(value);
}

/// The smaller, or the larger, of two values; `a` if either is NaN.
template <class T>
RINGTAPE_HOST_DEVICE constexpr T minimum(T a, T b) {
  return b < a ? b : a;
}
template <class T>
RINGTAPE_HOST_DEVICE constexpr T maximum(T a, T b) {
  return a < b ? b : a;
}

/// How a reduction combines two values.
struct Sum {
  template <class T>
  RINGTAPE_HOST_DEVICE static T combine(T a, T b) {
    return a + b;
  }
};

struct Max {
  template <class T>
  RINGTAPE_HOST_DEVICE static T combine(T a, T b) {
    return maximum(a, b);
  }
};

}  // namespace ringtape::RINGTAPE_TARGET
