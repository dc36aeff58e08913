#include "kernels/simt/shared_memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/ceil_div.h"

// The linker defines these two around the section that holds the __shared__ variables of check builds and of
// the analysis; without such variables they are null.
extern "C" {
extern unsigned char __start_simt_shared[] __attribute__((weak));
extern unsigned char __stop_simt_shared[] __attribute__((weak));
}

namespace ringtape::simt {

DynamicShared::~DynamicShared() {
  std::free(data_);
}

void DynamicShared::resize(std::size_t bytes) {
#if defined(RINGTAPE_CHECK)
  if (bytes == bytes_) return;
  std::free(data_);
  data_ = bytes == 0 ? nullptr : std::malloc(bytes);
#else
  if (bytes <= bytes_) return;
  constexpr std::size_t kAlignment = 64;
  std::free(data_);
  data_ = std::aligned_alloc(kAlignment, round_up(bytes, kAlignment));
#endif
  bytes_ = data_ == nullptr ? 0 : bytes;
  if (bytes_ != bytes) throw std::bad_alloc();
}

void DynamicShared::poison() {
  if (bytes_ > 0) std::memset(data_, 0xff, bytes_);
}

StaticShared static_shared() {
  return {__start_simt_shared, __stop_simt_shared};
}

// AddressSanitizer has redzones between the variables, which checked code must not write. The empty assembly
// keeps the compiler from replacing the loop by memset, which is checked. The kernels of a program may have a
// few hundred KiB, and this runs for each block: so it stores 16 bytes at a time.
__attribute__((no_sanitize("address", "undefined"))) void poison_static_shared() {
  using Wide = std::uint64_t __attribute__((vector_size(16), aligned(1), may_alias));
  unsigned char* byte = __start_simt_shared;
  for (; __stop_simt_shared - byte >= static_cast<std::ptrdiff_t>(sizeof(Wide)); byte += sizeof(Wide)) {
    *reinterpret_cast<Wide*>(byte) = Wide{~0ull, ~0ull};
    asm volatile("" : : : "memory");
  }
  for (volatile unsigned char* last = byte; last != __stop_simt_shared; ++last) *last = 0xff;
}

}  // namespace ringtape::simt
