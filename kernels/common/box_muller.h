#pragma once

#include <math.h>

#include <cstdint>

#include "core/half.h"

/// The Box-Muller transform (Box and Muller, "A note on the generation of random normal deviates", 1958) in
/// f32, of operations that round in one way on every target: no functions of a library but sqrt, and each
/// product that is added to something an fmaf. So the CPU and the GPU give the same bits.
namespace ringtape::RINGTAPE_TARGET {

struct NormalPair {
  float first, second;
};

/// log(1 + f) for 1 / sqrt(2) <= 1 + f <= sqrt(2). The polynomial's coefficients are a least-squares fit at
/// Chebyshev nodes, its relative error below 2^-26.
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

/// log(u) for u = (word + 1/2) / 2^32. Above 1 / sqrt(2) it is that of 1 - (1 - u), whose rounding is
/// smaller.
RINGTAPE_HOST_DEVICE inline float log_of_word(std::uint32_t word) {
  const bool near_one = word >= 0xb504f334u;                                             // 2^32 / sqrt(2)
  const float below_one = (static_cast<float>(~word) + 0.5f) * 2.3283064365386963e-10f;  // 1 - u
  const float scaled = static_cast<float>(word) + 0.5f;                                  // 2^32 u
  const std::uint32_t bits = float_bits(scaled);
  const int exponent = static_cast<int>(bits - 0x3f3504f3u) >> 23;  // scaled = 2^exponent (1 + f)
  const std::uint32_t mantissa = bits - (static_cast<std::uint32_t>(exponent) << 23);
  const float f = near_one ? -below_one : float_from_bits(mantissa) - 1.0f;
  const float twos = near_one ? 0.0f : static_cast<float>(exponent - 32);
  return fmaf(twos, 0.693147182f, log_near_one(f));
}

/// The sine and cosine of 2 pi word / 2^32: Taylor's series on an eighth of the circle to either side of the
/// nearest axis.
RINGTAPE_HOST_DEVICE inline NormalPair cosine_and_sine(std::uint32_t word) {
  const std::uint32_t axis = (word + 0x20000000u) >> 30;
  const float t = static_cast<float>(static_cast<std::int32_t>(word - (axis << 30))) * 1.46291808e-9f;
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
  const bool odd = axis % 2 == 1;  // the axis is vertical
  const std::uint32_t minus_cosine = ((axis + 1) & 2) << 30, minus_sine = (axis & 2) << 30;
  return {float_from_bits(float_bits(odd ? sine : cosine) ^ minus_cosine),
          float_from_bits(float_bits(odd ? cosine : sine) ^ minus_sine)};
}

/// Two independent values of a normal distribution from two random words, each within six roundings of the
/// transform's exact value for mean 0: three of the radius, three of the angle's function.
RINGTAPE_HOST_DEVICE inline NormalPair normal_pair(std::uint32_t word0, std::uint32_t word1, float mean,
                                                   float std) {
  const float radius = sqrtf(-2.0f * log_of_word(word0));
  const NormalPair direction = cosine_and_sine(word1);
  return {fmaf(std, radius * direction.first, mean), fmaf(std, radius * direction.second, mean)};
}

}  // namespace ringtape::RINGTAPE_TARGET
