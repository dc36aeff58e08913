// The functions that g++ -fsanitize=thread calls at each access to memory. Linked in place of
// ThreadSanitizer's own runtime, they feed the active Analysis; without one they call the access hook, if it
// is set.
#include <cstddef>
#include <cstdint>

#include "kernels/analysis/recorder.h"

namespace {

using ringtape::analysis::Access;
using ringtape::analysis::Recorder;

void record(Access access, const void* memory, std::size_t bytes, const void* code) {
  if (Recorder* recorder = Recorder::active()) {
    recorder->access(access, memory, bytes, code);
  } else if (ringtape::simt::access_hook != nullptr) {
    ringtape::simt::access_hook(memory, bytes, access != Access::read);
  }
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}  // of host code in a kernel's file

#define RINGTAPE_TSAN_ACCESS(bytes)                                    \
  void __tsan_read##bytes(void* memory) {                              \
    record(Access::read, memory, bytes, __builtin_return_address(0));  \
  }                                                                    \
  void __tsan_write##bytes(void* memory) {                             \
    record(Access::write, memory, bytes, __builtin_return_address(0)); \
  }                                                                    \
  void __tsan_unaligned_read##bytes(void* memory) {                    \
    record(Access::read, memory, bytes, __builtin_return_address(0));  \
  }                                                                    \
  void __tsan_unaligned_write##bytes(void* memory) {                   \
    record(Access::write, memory, bytes, __builtin_return_address(0)); \
  }

RINGTAPE_TSAN_ACCESS(1)
RINGTAPE_TSAN_ACCESS(2)
RINGTAPE_TSAN_ACCESS(4)
RINGTAPE_TSAN_ACCESS(8)
RINGTAPE_TSAN_ACCESS(16)

void __tsan_read_range(void* memory, std::size_t bytes) {
  record(Access::read, memory, bytes, __builtin_return_address(0));
}
void __tsan_write_range(void* memory, std::size_t bytes) {
  record(Access::write, memory, bytes, __builtin_return_address(0));
}

// The atomics of kernels/simt/cpu_builtins.h. The compiler calls these in place of the operation, so they
// perform it.
std::uint32_t __tsan_atomic32_fetch_add(volatile void* memory, std::uint32_t value, int) {
  record(Access::atomic, const_cast<void*>(memory), 4, __builtin_return_address(0));
  return __atomic_fetch_add(static_cast<volatile std::uint32_t*>(memory), value, __ATOMIC_ACQ_REL);
}
std::uint64_t __tsan_atomic64_fetch_add(volatile void* memory, std::uint64_t value, int) {
  record(Access::atomic, const_cast<void*>(memory), 8, __builtin_return_address(0));
  return __atomic_fetch_add(static_cast<volatile std::uint64_t*>(memory), value, __ATOMIC_ACQ_REL);
}
std::uint32_t __tsan_atomic32_exchange(volatile void* memory, std::uint32_t value, int) {
  record(Access::atomic, const_cast<void*>(memory), 4, __builtin_return_address(0));
  return __atomic_exchange_n(static_cast<volatile std::uint32_t*>(memory), value, __ATOMIC_ACQ_REL);
}
void __tsan_atomic_signal_fence(int) {}

// The functions that -fsanitize-coverage=trace-pc,trace-cmp calls at the start of each basic block and before
// each comparison.
void __sanitizer_cov_trace_pc() {
  if (Recorder* recorder = Recorder::active()) recorder->enters(__builtin_return_address(0));
}

#define RINGTAPE_COMPARISON(name, type)                                                           \
  void __sanitizer_cov_trace_##name(type, type) {                                                 \
    if (Recorder* recorder = Recorder::active()) recorder->compares(__builtin_return_address(0)); \
  }

RINGTAPE_COMPARISON(cmp1, std::uint8_t)
RINGTAPE_COMPARISON(cmp2, std::uint16_t)
RINGTAPE_COMPARISON(cmp4, std::uint32_t)
RINGTAPE_COMPARISON(cmp8, std::uint64_t)
RINGTAPE_COMPARISON(const_cmp1, std::uint8_t)
RINGTAPE_COMPARISON(const_cmp2, std::uint16_t)
RINGTAPE_COMPARISON(const_cmp4, std::uint32_t)
RINGTAPE_COMPARISON(const_cmp8, std::uint64_t)
RINGTAPE_COMPARISON(cmpf, float)
RINGTAPE_COMPARISON(cmpd, double)

void __sanitizer_cov_trace_switch(std::uint64_t, void*) {
  if (Recorder* recorder = Recorder::active()) recorder->compares(__builtin_return_address(0));
}

}  // extern "C"
