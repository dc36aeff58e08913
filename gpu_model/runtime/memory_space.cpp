#include "gpu_model/runtime/memory_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpu_model/runtime/fault.h"
#include "gpu_model/runtime/state.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace gpu_model {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

bool is_open = false;

[[noreturn]] void end_process(const char* what) {
  std::fprintf(stderr, "gpu model: %s: %s\n", what, std::strerror(errno));
  std::abort();
}

}  // namespace

MemorySpace::MemorySpace(std::size_t memory) {
  const std::size_t bytes = 2 * memory + kHugePage;
  void* const mapping = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) end_process("no address space for a device's memory");
  begin_ = (reinterpret_cast<std::uintptr_t>(mapping) + kHugePage - 1) / kHugePage * kHugePage;
  end_ = begin_ + 2 * memory;
  next_ = begin_;
  madvise(reinterpret_cast<void*>(begin_), 2 * memory, MADV_HUGEPAGE);  // fewer page tables to change
  madvise(reinterpret_cast<void*>(begin_), 2 * memory, MADV_DONTDUMP);
}

std::uintptr_t MemorySpace::grow(std::size_t bytes) {
  if (bytes > end_ - next_) return 0;
  const std::uintptr_t begin = next_;
  next_ += bytes;
  // Unlike the addresses around it: else the kernel would cut the mapping at each opening, and join it again.
  madvise(reinterpret_cast<void*>(begin), bytes, MADV_DODUMP);
  if (is_open && mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE) != 0) {
    end_process("mprotect");
  }
  if (!pieces_.empty() && pieces_.back().begin + pieces_.back().bytes == begin) {
    pieces_.back().bytes += bytes;
  } else {
    pieces_.push_back({begin, bytes});
  }
  return begin;
}

void MemorySpace::release(std::uintptr_t begin, std::size_t bytes) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece piece = pieces_[i];
    if (begin < piece.begin || begin + bytes > piece.begin + piece.bytes) continue;
    std::vector<Piece> rest;
    if (begin > piece.begin) rest.push_back({piece.begin, begin - piece.begin});
    const std::uintptr_t end = begin + bytes, piece_end = piece.begin + piece.bytes;
    if (end < piece_end) rest.push_back({end, piece_end - end});
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(i));
    pieces_.insert(pieces_.begin() + static_cast<std::ptrdiff_t>(i), rest.begin(), rest.end());
    break;
  }
  void* const address = reinterpret_cast<void*>(begin);
  madvise(address, bytes, MADV_DONTNEED);
  madvise(address, bytes, MADV_DONTDUMP);
  mprotect(address, bytes, PROT_NONE);
}

void MemorySpace::protect(bool accessible) const {
  for (const Piece& piece : pieces_) {
    if (mprotect(reinterpret_cast<void*>(piece.begin), piece.bytes,
                 accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
      end_process("mprotect");
    }
  }
}

void open_device_memory() {
  if (is_open) return;
  is_open = true;
  for (const auto& device : state().devices) {
    if (device->space) device->space->protect(true);
  }
}

void close_device_memory() {
  if (!is_open) return;
  is_open = false;
  for (const auto& device : state().devices) {
    if (device->space) device->space->protect(false);
  }
  watch_for_faults();
}

bool device_memory_is_open() {
  return is_open;
}

void fill_fresh(void* begin, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
#endif
  std::memset(begin, 0xff, bytes);
}

void fill_freed(void* begin, std::size_t bytes) {
  auto* const halves = static_cast<std::uint16_t*>(begin);
  std::fill(halves, halves + bytes / sizeof *halves, std::uint16_t{0xfffe});
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(begin, bytes);
#endif
}

}  // namespace gpu_model
