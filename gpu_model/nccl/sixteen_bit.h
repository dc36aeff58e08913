#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// The 16-bit types: their bits, and conversion to and from float, rounded to the nearest, ties to even.
namespace gpu_model::nccl {

struct Bfloat16 {
  std::uint16_t bits;

  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const auto whole = std::bit_cast<std::uint32_t>(value);
    bits =
        std::isnan(value) ? 0x7fff : static_cast<std::uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

struct Float16 {
  std::uint16_t bits;

  Float16() = default;
  explicit Float16(float value) {
    const auto whole = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(whole >> 16 & 0x8000);
    const std::uint32_t magnitude = whole & 0x7fffffff;
    std::uint32_t rounded = 0;
    if (magnitude > 0x7f800000) {
      rounded = 0x7fff;  // NaN
    } else if (magnitude >= 0x47800000) {
      rounded = 0x7c00;  // 65536 and more: infinity
    } else if (magnitude >= 0x38800000) {
      // A normal number. Rounding may carry into the exponent, up to infinity.
      rounded = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    } else {
      // A multiple of 2^-24: the float's own addition rounds to it.
      rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
                std::bit_cast<std::uint32_t>(0.5F);
    }
    bits = static_cast<std::uint16_t>(sign | rounded);
  }
  operator float() const {
    const float sign = bits & 0x8000 ? -1.0F : 1.0F;
    const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    if (exponent == 0x1f) return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    return std::bit_cast<float>(std::uint32_t{bits & 0x8000U} << 16 |
                                static_cast<std::uint32_t>((exponent + 112) << 23 | fraction << 13));
  }
};

}  // namespace gpu_model::nccl
