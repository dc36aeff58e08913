#pragma once

#include <math.h>

#include <cstdint>

#include "core/half.h"
#include "kernels/common/accumulate.h"

/// Elementary functions for kernels on both targets, cheaper than the C library's.
namespace ringtape::RINGTAPE_TARGET {

/// 2^x for x < 128; one instruction on the GPU. Results below 2^-126 may be 0.
RINGTAPE_HOST_DEVICE inline float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

/// exp(x) for x <= 88, for the inner loops of a softmax. Relative error: at most 1 ulp on the CPU; below (2 +
/// |x|) ulp on the GPU, whose ex2 instruction works on the rounded product x * log2(e). Results below 2^-126
/// are 0. exp(-inf) is 0 and NaN stays NaN.
///
/// CPU: x = n ln 2 + r with |r| <= ln(2)/2, ln 2 in two parts (Cody and Waite, "Software Manual for the
/// Elementary Functions", 1980), the Taylor polynomial of degree 7 in r, then n added to the exponent bits.
/// Without branches, so that compilers vectorise it, which they do not with std::exp.
RINGTAPE_HOST_DEVICE inline float softmax_exp(float x) {
#if defined(__CUDA_ARCH__)
  return power_of_two(x * 1.44269504f);
#else
  const float shifter = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, left in the low bits
  const float shifted = x * 1.44269504f + shifter;
  const float n = shifted - shifter;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const float result = float_from_bits(float_bits(series) + (float_bits(shifted) << 23));
  const float with_underflow = x < -87.3365447f ? 0.0f : result;
  return x == x ? with_underflow : x;  // the addition to the exponent can turn a NaN into a number
#endif
}

/// The larger of two logits; either of them if one is NaN, because the softmax's sum becomes NaN anyway.
template <class A>
RINGTAPE_HOST_DEVICE inline A larger_logit(A a, A b) {
#if defined(__CUDA_ARCH__)
  return fmaxf(a, b);  // one instruction, where a comparison and a selection are two
#else
  return maximum(a, b);
#endif
}

/// base^exponent for an exponent of at least 0 by repeated squaring: a few multiplications where pow() takes
/// hundreds of instructions. Relative error below exponent * 2^-53.
RINGTAPE_HOST_DEVICE inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

/// log(x) for either type, by the C library.
RINGTAPE_HOST_DEVICE inline float natural_log(float x) {
  return logf(x);
}

#if !defined(__CUDACC__)
// The double forms, for gradient checks on the CPU.
inline double softmax_exp(double x) {
  return ::exp(x);
}
inline double natural_log(double x) {
  return ::log(x);
}
#endif

}  // namespace ringtape::RINGTAPE_TARGET
