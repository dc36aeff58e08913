#include "gpu_model/nccl/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "gpu_model/nccl/sixteen_bit.h"

namespace gpu_model::nccl {
namespace {

/// Calls body(T{}) with the C++ type of an element.
template <class Body>
auto with_type(ncclDataType_t type, const Body& body) {
  switch (type) {
    case ncclInt8:
      return body(std::int8_t{});
    case ncclUint8:
      return body(std::uint8_t{});
    case ncclInt32:
      return body(std::int32_t{});
    case ncclUint32:
      return body(std::uint32_t{});
    case ncclInt64:
      return body(std::int64_t{});
    case ncclUint64:
      return body(std::uint64_t{});
    case ncclFloat16:
      return body(Float16{});
    case ncclFloat32:
      return body(float{});
    case ncclFloat64:
      return body(double{});
    case ncclBfloat16:
    default:
      return body(Bfloat16{});
  }
}

/// The type of computation: integers wrap around, 16-bit types are float until they are rounded.
template <class T>
auto widen(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<std::uint64_t>(static_cast<Unsigned>(a)) + static_cast<Unsigned>(b));
  } else {
    return T(widen(a) + widen(b));
  }
}

template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<std::uint64_t>(static_cast<Unsigned>(a)) * static_cast<Unsigned>(b));
  } else {
    return T(widen(a) * widen(b));
  }
}

template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return std::min(a, b);
  else
    return T(std::fmin(widen(a), widen(b)));
}

template <class T>
T larger(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return std::max(a, b);
  else
    return T(std::fmax(widen(a), widen(b)));
}

template <class T, class Function>
void combine_by(void* into, const void* from, std::size_t count, const Function& function) {
  T* const a = static_cast<T*>(into);
  const T* const b = static_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) a[i] = function(a[i], b[i]);
}

}  // namespace

bool is_type(ncclDataType_t type) {
  return type >= ncclInt8 && type <= ncclBfloat16;
}

bool is_op(ncclRedOp_t op) {
  return op >= ncclSum && op <= ncclAvg;
}

std::size_t size_of(ncclDataType_t type) {
  return with_type(type, [](auto element) { return sizeof element; });
}

void prepare(ncclDataType_t type, ncclRedOp_t op, int ranks, void* elements, std::size_t count) {
  if (op != ncclAvg) return;
  with_type(type, [&](auto element) {
    using T = decltype(element);
    if constexpr (!std::is_integral_v<T>) {
      const T factor(widen(T(1.0F)) / static_cast<decltype(widen(T{}))>(ranks));
      T* const values = static_cast<T*>(elements);
      for (std::size_t i = 0; i < count; ++i) values[i] = multiply(values[i], factor);
    }
  });
}

void combine(ncclDataType_t type, ncclRedOp_t op, void* into, const void* from, std::size_t count) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    switch (op) {
      case ncclSum:
      case ncclAvg:
        return combine_by<T>(into, from, count, add<T>);
      case ncclProd:
        return combine_by<T>(into, from, count, multiply<T>);
      case ncclMax:
        return combine_by<T>(into, from, count, larger<T>);
      case ncclMin:
        return combine_by<T>(into, from, count, smaller<T>);
    }
  });
}

void finish(ncclDataType_t type, ncclRedOp_t op, int ranks, void* elements, std::size_t count) {
  if (op != ncclAvg) return;
  with_type(type, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_integral_v<T>) {
      T* const values = static_cast<T*>(elements);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(values[i] / static_cast<T>(ranks));
    }
  });
}

}  // namespace gpu_model::nccl
