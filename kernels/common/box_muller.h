#pragma once

#include <math.h>

#include <cstdint>

#include "core/half.h"

/// The Box-Muller transform (Box and Muller, "A note on the generation of random normal deviates", 1958) in
/// f32, from operations that round in the same way on every target: sqrt is the only library function, and a
/// product is added to something only by fmaf. So the CPU and the GPU give the same bits.
namespace ringtape::RINGTAPE_TARGET {

struct NormalPair {
  float first, second;
};

/// log(1 + f) for 1 / sqrt(2) <= 1 + f <= sqrt(2). The polynomial's coefficients are a least-squares fit at
/// Chebyshev nodes, with a relative error below 2^-26.
RINGTAPE_HOST_DEVICE inline float log_near_one(float f) {
  float series = -0.0763422996f;
  series = fmaf(series, f, 0.127614692f);
  series = fmaf(series, f, -0.131602332f);
  series = fmaf(series, f, 0.142017767f);
  series = fmaf(series, f, -0.16623354f);
  series = fmaf(series, f, 0.200012267f);
  series = fmaf(series, f, -0.250008225f);
  series = fmaf(series, f, 0.333333313f);
  const float square = f * f;
  return fmaf(square, fmaf(series, f, -0.5f), f);
}

/// log(u) for u = (word + 1/2) / 2^32. Above 1 / sqrt(2) it is the logarithm of 1 - (1 - u), whose rounding
/// is smaller.
RINGTAPE_HOST_DEVICE inline float log_of_word(std::uint32_t word) {
  const float u = fmaf(static_cast<float>(word), 2.3283064365386963e-10f, 1.1641532182693481e-10f);
  // u = 2^exponent (1 + f) with 1 / sqrt(2) <= 1 + f < sqrt(2): the exponent in the bits where a float has
  // its own.
  const std::uint32_t exponent = (float_bits(u) - 0x3f3504f3u) & 0xff800000u;
  const float u_minus_one =
      fmaf(static_cast<float>(~word), -2.3283064365386963e-10f, -1.1641532182693481e-10f);
  const bool near_one = word >= 0xb504f334u;  // 2^32 / sqrt(2); the exponent is 0
  const float f = near_one ? u_minus_one : float_from_bits(float_bits(u) - exponent) - 1.0f;
  constexpr float kLog2 = 0.693147182f, kUnit = 0x1p-23f;
  return fmaf(static_cast<float>(static_cast<std::int32_t>(exponent)), kLog2 * kUnit, log_near_one(f));
}

/// The sine and cosine of 2 pi word / 2^32, by Taylor series up to an eighth of the circle to either side of
/// the nearest axis.
RINGTAPE_HOST_DEVICE inline NormalPair cosine_and_sine(std::uint32_t word) {
  const std::uint32_t turned = word + 0x20000000u;  // the nearest axis in the two highest bits
  // Multiplied by 4, the axis overflows, and the difference from it is left.
  const float t = static_cast<float>(static_cast<std::int32_t>(word << 2)) * (1.46291808e-9f / 4);
  const float square = t * t;
  float sine = 2.75573192e-6f;
  sine = fmaf(sine, square, -1.98412698e-4f);
  sine = fmaf(sine, square, 8.33333333e-3f);
  sine = fmaf(sine, square, -0.166666667f);
  sine = fmaf(t * square, sine, t);
  float cosine = -2.75573192e-7f;
  cosine = fmaf(cosine, square, 2.48015873e-5f);
  cosine = fmaf(cosine, square, -1.38888889e-3f);
  cosine = fmaf(cosine, square, 4.16666667e-2f);
  cosine = fmaf(cosine, square, -0.5f);
  cosine = fmaf(cosine, square, 1.0f);
  const bool odd = (turned & 0x40000000u) != 0;  // the axis is vertical
  constexpr std::uint32_t kSign = 0x80000000u;
  const std::uint32_t minus_cosine = (turned + 0x40000000u) & kSign, minus_sine = turned & kSign;
  return {float_from_bits(float_bits(odd ? sine : cosine) ^ minus_cosine),
          float_from_bits(float_bits(odd ? cosine : sine) ^ minus_sine)};
}

/// sqrt(x), correctly rounded, for x from 2^-100 to 2^100.
RINGTAPE_HOST_DEVICE inline float root_of_moderate(float x) {
#if defined(__CUDA_ARCH__)
  // The code that nvcc generates for sqrtf(x), without its branch for other x.
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  const float root = x * inverse;
  return fmaf(fmaf(-root, root, x), 0.5f * inverse, root);
#else
  return sqrtf(x);
#endif
}

/// Two independent values of a normal distribution from two random words, each within six roundings of the
/// transform's exact value for mean 0: three of the radius, three of the angle's function.
RINGTAPE_HOST_DEVICE inline NormalPair normal_pair(std::uint32_t word0, std::uint32_t word1, float mean,
                                                   float std) {
  const float radius = root_of_moderate(-2.0f * log_of_word(word0));
  const NormalPair direction = cosine_and_sine(word1);
  return {fmaf(std, radius * direction.first, mean), fmaf(std, radius * direction.second, mean)};
}

}  // namespace ringtape::RINGTAPE_TARGET
