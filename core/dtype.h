#pragma once

#include <cstddef>
#include <cstdint>

/// Element types. Kernels of both targets include this header, so it defines no inline functions.
namespace ringtape {

/// Element type of a tensor. f64 is for gradient checks on the CPU; a GPU can store f64 elements, such as an
/// optimizer's norms, but the operations of autograd/ops.h do not compute with them there.
enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8 };

/// Brain float: the upper 16 bits of an f32 (8 exponent bits, 7 mantissa bits). Conversions: core/half.h.
struct bfloat16 {
  std::uint16_t bits;
};

/// IEEE 754 binary16 (5 exponent bits, 10 mantissa bits). Conversions: core/half.h.
struct float16 {
  std::uint16_t bits;
};

/// Bytes of one element.
std::size_t size_of(DType dtype);
/// "f32", "bf16", ...
const char* name_of(DType dtype);
/// True for f32, f64, bf16 and f16.
bool is_floating(DType dtype);

/// The DType of a C++ type: dtype_of<float> is DType::f32.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <class T>
constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace ringtape
