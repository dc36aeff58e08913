#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpu_model {

/// The addresses of a device's memory. Host code cannot read or write them: they are accessible only between
/// open_device_memory() and close_device_memory(), while operations run.
class MemorySpace {
 public:
  /// Reserves address space of twice the memory's size, since released pieces leave gaps.
  explicit MemorySpace(std::size_t memory);
  MemorySpace(const MemorySpace&) = delete;
  MemorySpace& operator=(const MemorySpace&) = delete;

  bool contains(const void* address) const {
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    return place >= begin_ && place < end_;
  }
  /// Adds `bytes` bytes, a multiple of 2 MiB, and returns their address; 0 if the address space is full.
  /// Addresses of released pieces are used again only when there are no others.
  std::uintptr_t grow(std::size_t bytes);
  /// Returns a piece to the system.
  void release(std::uintptr_t begin, std::size_t bytes);

  void protect(bool accessible);

 private:
  struct Piece {
    std::uintptr_t begin;
    std::size_t bytes;
  };
  std::uintptr_t new_addresses(std::size_t bytes);

  std::uintptr_t begin_, end_;
  std::uintptr_t next_;
  bool is_open_ = false;
  std::vector<Piece> pieces_;  // in use; adjacent pieces are merged
  std::vector<Piece> released_;
};

/// Makes the memory of all devices accessible to this process, or the memory of one device alone (a kernel
/// reaches no other without peer access), and inaccessible again. Call them with the engine's mutex held.
void open_device_memory();
void open_device_memory_of(int device);
void close_device_memory();
bool device_memory_is_open();
/// The device whose memory alone is open; -1 if none is, or all.
int opened_device();

/// Fills new or freed memory with values that are NaN in every floating type, and marks freed memory as
/// inaccessible for AddressSanitizer, if it is enabled. Device memory must be open.
void fill_fresh(void* begin, std::size_t bytes);
void fill_freed(void* begin, std::size_t bytes);

}  // namespace gpu_model
