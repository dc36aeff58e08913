#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/stream.h"

/// Declares a launcher: the host function that starts a kernel. The `.cu` file defines it once and is
/// compiled for both targets, so it exists twice. This macro declares both and a third, `ringtape::name`,
/// that calls the one for the stream's device:
///
///   RINGTAPE_LAUNCHER(relu_forward, DType dtype, const void* x, void* y, std::int64_t n);
///
/// A `.cu` file sees only the declaration of its own target.
#define RINGTAPE_LAUNCHER_OF(target, name, ...) \
  namespace ringtape::target {                  \
  void name(const Stream& stream, __VA_ARGS__); \
  }

#if defined(RINGTAPE_IN_KERNEL_FILE)

#define RINGTAPE_LAUNCHER(name, ...)                       \
  RINGTAPE_LAUNCHER_OF(RINGTAPE_TARGET, name, __VA_ARGS__) \
  static_assert(true)

#elif defined(RINGTAPE_WITH_CUDA)

#define RINGTAPE_LAUNCHER(name, ...)                     \
  RINGTAPE_LAUNCHER_OF(on_cpu, name, __VA_ARGS__)        \
  RINGTAPE_LAUNCHER_OF(on_cuda, name, __VA_ARGS__)       \
  namespace ringtape {                                   \
  template <class... Args>                               \
  void name(const Stream& stream, const Args&... args) { \
    if (stream.device().is_cuda()) {                     \
      on_cuda::name(stream, args...);                    \
    } else {                                             \
      on_cpu::name(stream, args...);                     \
    }                                                    \
  }                                                      \
  }                                                      \
  static_assert(true)

#else  // without CUDA no device is a GPU: Device::parse refuses GPUs

#define RINGTAPE_LAUNCHER(name, ...)                     \
  RINGTAPE_LAUNCHER_OF(on_cpu, name, __VA_ARGS__)        \
  namespace ringtape {                                   \
  template <class... Args>                               \
  void name(const Stream& stream, const Args&... args) { \
    on_cpu::name(stream, args...);                       \
  }                                                      \
  }                                                      \
  static_assert(true)

#endif
