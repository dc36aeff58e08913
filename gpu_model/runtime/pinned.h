#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>

#include "gpu_model/runtime/clock.h"

namespace gpu_model {

struct Node;
struct Operation;

/// Page-locked host memory. It is mapped twice: the program's pages cannot be written while a copy that the
/// host has not waited for reads them, and cannot be accessed while one writes them; copies use the other
/// mapping.
class PinnedMemory {
 public:
  struct Allocation {
    std::uint64_t number;  ///< in the order of the allocations
    std::size_t bytes, mapped_bytes;
    char* alias;
    const void* caller;
  };
  /// A copy in flight.
  struct Use {
    std::uintptr_t begin;
    std::size_t bytes;
    bool writes;
    Stamp stamp;
    const char* name;
    const void* caller;
    int stream;
    bool is_lent;  ///< to a host function that the copy comes after
  };

  /// Null if no memory is left.
  void* allocate(std::size_t bytes, const void* caller);
  /// False if there is no allocation at the address.
  bool free(void* address);
  /// The allocation that contains the bytes, and its address; null if there is none.
  std::pair<std::uintptr_t, const Allocation*> find(const void* address, std::size_t bytes) const;
  /// The address of these bytes in the mapping for copies.
  char* alias(const void* address) const;

  /// Records that an operation uses the bytes until the host has waited for it.
  void use(const void* address, std::size_t bytes, bool writes, const Node& node);
  /// Gives the host access to the memory of the operations that it has waited for.
  void host_has_waited_for(const Clock& clock);
  /// A copy in flight that uses the allocation at the address; null if there is none.
  const Use* use_of(const void* address) const;
  /// Opens the bytes of the uses that come after a host function, which may access them, until it ends.
  void lend(const std::function<bool(const Use&)>& comes_after);
  void take_back();

  const std::map<std::uintptr_t, Allocation>& allocations() const { return allocations_; }
  const std::list<Use>& uses() const { return uses_; }
  /// For the fault handler: makes the page of this address accessible until close_pages().
  void open_page(std::uintptr_t address);
  void close_pages();

 private:
  void protect(std::uintptr_t begin, std::size_t bytes) const;

  std::map<std::uintptr_t, Allocation> allocations_;
  std::uint64_t numbers_ = 0;
  std::list<Use> uses_;
  // Filled by the fault handler, which must not allocate.
  std::array<std::atomic<std::uintptr_t>, 64> opened_{};
  std::atomic<std::size_t> opened_count_ = 0;
};

}  // namespace gpu_model
