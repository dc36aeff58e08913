#pragma once

#include "core/dtype.h"
#include "core/target.h"
#include "kernels/common/launch_errors.h"

/// Runs a statement with T standing for the element type that `dtype` names:
///
///   RINGTAPE_DISPATCH_FLOATING(dtype, T, launch(relu<T>, elementwise_shape(n), stream, ...));
///
/// T is float, bfloat16 or float16, and on the CPU also double. Throws Error for any other dtype.
#if defined(RINGTAPE_FOR_GPU)
#define RINGTAPE_CASE_DOUBLE(T, ...)
#else
#define RINGTAPE_CASE_DOUBLE(T, ...) RINGTAPE_CASE(f64, double, T, __VA_ARGS__)
#endif

#define RINGTAPE_CASE(dtype_name, type, T, ...) \
  case ::ringtape::DType::dtype_name: {         \
    using T = type;                             \
    __VA_ARGS__;                                \
    break;                                      \
  }

#define RINGTAPE_DISPATCH_FLOATING(dtype, T, ...)               \
  do {                                                          \
    switch (dtype) {                                            \
      RINGTAPE_CASE(f32, float, T, __VA_ARGS__)                 \
      RINGTAPE_CASE(bf16, ::ringtape::bfloat16, T, __VA_ARGS__) \
      RINGTAPE_CASE(f16, ::ringtape::float16, T, __VA_ARGS__)   \
      RINGTAPE_CASE_DOUBLE(T, __VA_ARGS__)                      \
      default:                                                  \
        ::ringtape::fail_unsupported_dtype(__func__, (dtype));  \
    }                                                           \
  } while (false)
