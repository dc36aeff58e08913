#pragma once

#include <nccl.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

/// Elements of every type of NCCL, as doubles, with a separate rounding to 16 bits for these tests: in double
/// arithmetic, for normal numbers.
namespace gpu_model::test {

inline const std::vector<ncclDataType_t>& all_types() {
  static const std::vector<ncclDataType_t> types{ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,
                                                 ncclInt64,   ncclUint64,  ncclFloat16, ncclFloat32,
                                                 ncclFloat64, ncclBfloat16};
  return types;
}

inline std::size_t bytes_of(ncclDataType_t type) {
  static const std::size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

inline bool is_floating(ncclDataType_t type) {
  return type >= ncclFloat16;
}

/// Significant bits of a 16-bit type: 8 of bfloat16 and 11 of half precision, with the leading one.
inline double rounded_to(double value, int bits) {
  if (value == 0) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1, exponent - bits);
  return std::nearbyint(value / unit) * unit;  // ties to even
}

template <class T>
void put(std::vector<char>& bytes, double value) {
  const T element = static_cast<T>(value);
  const char* const begin = reinterpret_cast<const char*>(&element);
  bytes.insert(bytes.end(), begin, begin + sizeof element);
}

/// A normal number or 0 by its sign, exponent and fraction.
inline void put_half(std::vector<char>& bytes, double value, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  std::uint16_t bits = 0;
  if (value != 0) {
    int exponent = 0;
    const double fraction = std::frexp(std::abs(value), &exponent) * 2 - 1;  // of [1, 2)
    bits = static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent - 1 + bias) << fraction_bits |
                                      static_cast<int>(std::ldexp(fraction, fraction_bits)));
  }
  put<std::uint16_t>(bytes, bits);
}

inline double half_of(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias - fraction_bits)
                               : std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
  return bits & 0x8000 ? -magnitude : magnitude;
}

inline std::vector<char> bytes_from(ncclDataType_t type, const std::vector<double>& values) {
  std::vector<char> bytes;
  for (const double value : values) {
    switch (type) {
      case ncclInt8:
        put<std::int8_t>(bytes, value);
        break;
      case ncclUint8:
        put<std::uint8_t>(bytes, value);
        break;
      case ncclInt32:
        put<std::int32_t>(bytes, value);
        break;
      case ncclUint32:
        put<std::uint32_t>(bytes, value);
        break;
      case ncclInt64:
        put<std::int64_t>(bytes, value);
        break;
      case ncclUint64:
        put<std::uint64_t>(bytes, value);
        break;
      case ncclFloat16:
        put_half(bytes, value, 5);
        break;
      case ncclFloat32:
        put<float>(bytes, value);
        break;
      case ncclFloat64:
        put<double>(bytes, value);
        break;
      case ncclBfloat16:
        put_half(bytes, value, 8);
        break;
    }
  }
  return bytes;
}

template <class T>
double take(const char* at) {
  T element;
  std::memcpy(&element, at, sizeof element);
  return static_cast<double>(element);
}

inline std::vector<double> doubles_from(ncclDataType_t type, const std::vector<char>& bytes) {
  std::vector<double> values;
  for (std::size_t i = 0; i < bytes.size(); i += bytes_of(type)) {
    const char* const at = bytes.data() + i;
    std::uint16_t half = 0;
    std::memcpy(&half, at, sizeof half < bytes.size() - i ? sizeof half : bytes.size() - i);
    switch (type) {
      case ncclInt8:
        values.push_back(take<std::int8_t>(at));
        break;
      case ncclUint8:
        values.push_back(take<std::uint8_t>(at));
        break;
      case ncclInt32:
        values.push_back(take<std::int32_t>(at));
        break;
      case ncclUint32:
        values.push_back(take<std::uint32_t>(at));
        break;
      case ncclInt64:
        values.push_back(take<std::int64_t>(at));
        break;
      case ncclUint64:
        values.push_back(take<std::uint64_t>(at));
        break;
      case ncclFloat16:
        values.push_back(half_of(half, 5));
        break;
      case ncclFloat32:
        values.push_back(take<float>(at));
        break;
      case ncclFloat64:
        values.push_back(take<double>(at));
        break;
      case ncclBfloat16:
        values.push_back(half_of(half, 8));
        break;
    }
  }
  return values;
}

}  // namespace gpu_model::test
