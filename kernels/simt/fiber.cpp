#include "kernels/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ringtape::simt {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 256 * 1024;  // instrumented frames are larger
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Stack::Stack(std::size_t number) {
  const std::size_t guard = page_bytes();
  void* memory = mmap(nullptr, guard + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
    fail(
        "SIMT executor: no stack of {} bytes for a thread of a kernel: {} (each stack takes two of the "
        "mappings that /proc/sys/vm/max_map_count allows)",
        kStackBytes, std::strerror(errno));
  }
  mapping_ = static_cast<char*>(memory);
  bottom_ = mapping_ + guard;
  constexpr std::size_t kColours = 16, kColourBytes = 256;
  top_ = bottom_ + kStackBytes - number % kColours * kColourBytes;
}

Stack::~Stack() {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(bottom_, kStackBytes);  // a later mapping may have these addresses
#endif
  munmap(mapping_, page_bytes() + kStackBytes);
}

Fiber::~Fiber() {
  destroy_context();
  if (entry_ != nullptr) destroy_tsan_fiber(tsan_fiber_);
}

void Fiber::start(const Stack& stack, void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
  stack_bottom_ = stack.bottom();
  stack_size_ = stack.size();
  tsan_fiber_ = create_tsan_fiber();
  create_context(stack);
}

void Fiber::run() {
  arrive();
  entry_(argument_);
  std::abort();
}

}  // namespace ringtape::simt
