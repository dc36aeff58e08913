#pragma once

#include "core/error.h"
#include "core/stream.h"
#include "core/tensor.h"

/// Checks of arguments that the operations share.
namespace ringtape {

inline Stream stream_of(const Tensor& tensor) {
  return Stream::current(tensor.device());
}

inline Tensor empty_like(const Tensor& tensor) {
  return empty(tensor.shape(), tensor.dtype(), tensor.device());
}

inline void check_floating(const char* operation, const Tensor& x) {
  check(x.defined() && is_floating(x.dtype()), "{}: expected a floating tensor, found {}", operation,
        describe(x));
}

inline void check_same_kind(const char* operation, const Tensor& a, const Tensor& b) {
  check_floating(operation, a);
  check(b.defined() && a.dtype() == b.dtype() && a.device() == b.device(),
        "{}: expected one dtype and device, found {} and {}", operation, describe(a), describe(b));
}

inline void check_same(const char* operation, const Tensor& a, const Tensor& b) {
  check_same_kind(operation, a, b);
  check(a.shape() == b.shape(), "{}: expected equal shapes, found {} and {}", operation, describe(a),
        describe(b));
}

}  // namespace ringtape
