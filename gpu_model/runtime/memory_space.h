#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpu_model {

/// The addresses of a device's memory. No host code can read or write them: only between open_device_memory()
/// and close_device_memory(), while operations run, are they accessible.
class MemorySpace {
 public:
  /// Reserves addresses, twice as many as there are bytes of memory, since pieces that were given back leave
  /// gaps.
  explicit MemorySpace(std::size_t memory);
  MemorySpace(const MemorySpace&) = delete;
  MemorySpace& operator=(const MemorySpace&) = delete;

  bool contains(const void* address) const {
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    return place >= begin_ && place < end_;
  }
  /// `bytes` more, a multiple of 2 MiB; 0 when there are no addresses left.
  std::uintptr_t grow(std::size_t bytes);
  /// Gives a piece back to the system.
  void release(std::uintptr_t begin, std::size_t bytes);

  void protect(bool accessible) const;

 private:
  struct Piece {
    std::uintptr_t begin;
    std::size_t bytes;
  };
  std::uintptr_t begin_, end_;
  std::uintptr_t next_;
  std::vector<Piece> pieces_;  // in use, by address; neighbours are one
};

/// Makes the memory of all devices accessible to this process, and takes it away again. Under the engine's
/// mutex.
void open_device_memory();
void close_device_memory();
bool device_memory_is_open();

/// Fills memory that was not written yet, or that was freed, with values that are NaN in every floating type.
/// Tells AddressSanitizer, where it is there, that nobody may touch what is freed. Device memory must be
/// open.
void fill_fresh(void* begin, std::size_t bytes);
void fill_freed(void* begin, std::size_t bytes);

}  // namespace gpu_model
