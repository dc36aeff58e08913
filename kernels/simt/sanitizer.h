#pragma once

#include <cstddef>

/// AddressSanitizer and ThreadSanitizer track stacks and must be informed of every switch. In other builds
/// the functions are empty.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ringtape::simt {

inline void* create_tsan_fiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

inline void* current_tsan_fiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

inline void destroy_tsan_fiber([[maybe_unused]] void* fiber) {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(fiber);
#endif
}

/// Call before switching to the stack at `bottom`; `fake_stack` must be passed to finish_switch later.
inline void start_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* bottom,
                         [[maybe_unused]] std::size_t size, [[maybe_unused]] void* tsan_fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_fiber, 0);
#endif
}

/// Call after switching to a fiber; `left_bottom` and `left_size` receive the stack that was left.
inline void finish_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** left_bottom,
                          [[maybe_unused]] std::size_t* left_size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, left_bottom, left_size);
#endif
}

}  // namespace ringtape::simt
