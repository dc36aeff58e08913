#include "gpu_model/runtime/memory_space.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "gpu_model/runtime/fault.h"
#include "gpu_model/runtime/page.h"
#include "gpu_model/runtime/state.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace gpu_model {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// From this size on memory is not written at once but mapped from a file that holds the values, so that only
/// what is used takes memory of the system.
constexpr std::size_t kMinMapped = std::size_t{256} << 20;
constexpr std::size_t kPatternBytes = std::size_t{64} << 20;

// What is open: the memory of the device with this index, or
constexpr int kNothing = -2, kEverything = -1;
int opened = kNothing;

[[noreturn]] void end_process(const char* what) {
  std::fprintf(stderr, "gpu model: %s: %s\n", what, std::strerror(errno));
  std::abort();
}

void open_only(int wanted) {
  if (opened == wanted) return;
  for (const auto& device : state().devices) {
    if (device->space) device->space->protect(wanted == kEverything || wanted == device->index);
  }
  opened = wanted;
}

/// A file of these values.
class Pattern {
 public:
  explicit Pattern(std::uint16_t value) : file_(memfd_create("values of device memory", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, kPatternBytes) != 0) end_process("no file of values");
    void* const all = mmap(nullptr, kPatternBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (all == MAP_FAILED) end_process("no file of values");
    std::fill_n(static_cast<std::uint16_t*>(all), kPatternBytes / sizeof value, value);
    munmap(all, kPatternBytes);
  }

  /// Maps the file repeatedly, from `begin` to `end`, which are at whole pages.
  void map_at(std::uintptr_t begin, std::uintptr_t end) const {
    for (std::uintptr_t at = begin; at < end; at += kPatternBytes) {
      if (mmap(reinterpret_cast<void*>(at), std::min(kPatternBytes, end - at), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_, 0) == MAP_FAILED) {
        end_process("no mapping of values");
      }
    }
  }

 private:
  int file_;
};

void fill(void* begin, std::size_t bytes, std::uint16_t value) {
  auto* const halves = static_cast<std::uint16_t*>(begin);
  auto* const end = halves + bytes / sizeof value;
  if (bytes < kMinMapped) {
    std::fill(halves, end, value);
    return;
  }
  static auto* const patterns = new std::map<std::uint16_t, Pattern>;
  const std::uintptr_t first = round_up(reinterpret_cast<std::uintptr_t>(halves), kPage);
  const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(end) / kPage * kPage;
  patterns->try_emplace(value, value).first->second.map_at(first, last);
  std::fill(halves, reinterpret_cast<std::uint16_t*>(first), value);
  std::fill(reinterpret_cast<std::uint16_t*>(last), end, value);
}

}  // namespace

MemorySpace::MemorySpace(std::size_t memory) {
  const std::size_t bytes = 2 * memory + kHugePage;
  void* const mapping = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) end_process("no address space for a device's memory");
  begin_ = round_up(reinterpret_cast<std::uintptr_t>(mapping), kHugePage);
  end_ = begin_ + 2 * memory;
  next_ = begin_;
  madvise(reinterpret_cast<void*>(begin_), 2 * memory, MADV_HUGEPAGE);  // fewer page tables to change
  madvise(reinterpret_cast<void*>(begin_), 2 * memory, MADV_DONTDUMP);
}

std::uintptr_t MemorySpace::new_addresses(std::size_t bytes) {
  if (bytes <= end_ - next_) {
    const std::uintptr_t begin = next_;
    next_ += bytes;
    return begin;
  }
  const auto it = std::find_if(released_.begin(), released_.end(),
                               [bytes](const Piece& piece) { return piece.bytes >= bytes; });
  if (it == released_.end()) return 0;
  const std::uintptr_t begin = it->begin;
  it->begin += bytes;
  it->bytes -= bytes;
  if (it->bytes == 0) released_.erase(it);
  return begin;
}

std::uintptr_t MemorySpace::grow(std::size_t bytes) {
  const std::uintptr_t begin = new_addresses(bytes);
  if (begin == 0) return 0;
  // A flag that its neighbours lack: otherwise the kernel would split and merge the mapping at each opening.
  madvise(reinterpret_cast<void*>(begin), bytes, MADV_DODUMP);
  if (is_open_ && mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE) != 0) {
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
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(address, bytes, PROT_NONE, kFlags, -1, 0) == MAP_FAILED) end_process("no release of memory");
  madvise(address, bytes, MADV_HUGEPAGE);
  madvise(address, bytes, MADV_DONTDUMP);
  const auto before = std::find_if(released_.begin(), released_.end(), [begin](const Piece& piece) {
    return piece.begin + piece.bytes == begin;
  });
  if (before == released_.end()) {
    released_.push_back({begin, bytes});
  } else {
    before->bytes += bytes;
  }
}

void MemorySpace::protect(bool accessible) {
  if (accessible == is_open_) return;
  is_open_ = accessible;
  for (const Piece& piece : pieces_) {
    if (mprotect(reinterpret_cast<void*>(piece.begin), piece.bytes,
                 accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
      end_process("mprotect");
    }
  }
}

void open_device_memory() {
  open_only(kEverything);
}

void open_device_memory_of(int device) {
  open_only(device);
}

void close_device_memory() {
  if (opened == kNothing) return;
  open_only(kNothing);
  watch_for_faults();
}

bool device_memory_is_open() {
  return opened != kNothing;
}

int opened_device() {
  return std::max(opened, -1);
}

void fill_fresh(void* begin, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
#endif
  fill(begin, bytes, 0xffff);
}

void fill_freed(void* begin, std::size_t bytes) {
  fill(begin, bytes, 0xfffe);
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(begin, bytes);
#endif
}

}  // namespace gpu_model
