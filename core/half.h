#pragma once

#include "core/dtype.h"
#include "core/target.h"

/// Conversions between f32 and the two 16-bit formats, rounding to nearest, ties to even, as IEEE 754
/// hardware does. They use the GPU's instructions where it has them, and compute on the bits elsewhere; the
/// results are the same bits, except those of NaN. NaN stays NaN (quiet in 16 bits), overflow becomes
/// infinity, f16 subnormals are kept.
namespace ringtape::RINGTAPE_TARGET {

RINGTAPE_HOST_DEVICE inline std::uint32_t float_bits(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

RINGTAPE_HOST_DEVICE inline float float_from_bits(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

RINGTAPE_HOST_DEVICE inline float to_float(bfloat16 value) {
  return float_from_bits(static_cast<std::uint32_t>(value.bits) << 16);
}

RINGTAPE_HOST_DEVICE inline bfloat16 to_bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // Ampere and later have the instruction
  bfloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  const std::uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  // Adding just under half a unit, plus the lowest kept bit, carries exactly when the nearest value is above.
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

RINGTAPE_HOST_DEVICE inline float to_float(float16 value) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_from_bits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return float_from_bits(sign | ((magnitude << 13) + (112u << 23)));
  // Zero or subnormal: magnitude units of 2^-24, exact in f32.
  return float_from_bits(sign | float_bits(static_cast<float>(magnitude) * 5.9604644775390625e-8f));
#endif
}

RINGTAPE_HOST_DEVICE inline float16 to_float16(float value) {
#if defined(__CUDA_ARCH__)
  float16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds to 65536
  if (magnitude >= 0x38800000u) {                                                     // normal in f16
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23);
    return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
  }
  // Subnormal in f16: adding 0.5 aligns the unit of the last place to 2^-24, and f32 addition rounds to even.
  const std::uint32_t sum = float_bits(float_from_bits(magnitude) + 0.5f);
  return {static_cast<std::uint16_t>(sign | (sum - 0x3f000000u))};
#endif
}

}  // namespace ringtape::RINGTAPE_TARGET
