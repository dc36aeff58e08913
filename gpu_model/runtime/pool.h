#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu_model/runtime/clock.h"
#include "gpu_model/runtime/races.h"

namespace gpu_model {

struct Node;
class MemorySpace;

/// A piece of a device's memory: an allocation, or free memory.
struct Block {
  std::size_t bytes = 0;  ///< multiple of 512
  bool is_free = true;
  std::shared_ptr<Node> freed;  ///< the operation that freed it; null for memory that was never allocated
  std::shared_ptr<BlockHistory> history{};  ///< of the last allocation; null for memory without one
  bool in_graph = false;                    ///< belongs to a graph: live from its launch until it is freed
  bool is_launched = false;
};

}  // namespace gpu_model

/// A device's memory, as adjacent blocks in chunks from the system. It is both the default pool of
/// stream-ordered allocation and the memory of cudaMalloc.
struct CUmemPoolHandle_st {
  using Block = gpu_model::Block;

  CUmemPoolHandle_st(int device, gpu_model::MemorySpace& space, std::size_t capacity)
      : device_(device), space_(space), capacity_(capacity) {}

  /// A block of at least `bytes` bytes for work after `clock`: memory that was freed before `clock` (in the
  /// order of streams and events), or whose free has run, or new memory. `wait_for` gets additional
  /// dependencies of that work: frees that are not ordered before it. 0 if the device has no memory left.
  std::uintptr_t take(std::size_t bytes, const gpu_model::Clock& clock,
                      std::vector<std::shared_ptr<gpu_model::Node>>& wait_for);
  /// Frees an allocation; `freed` is the freeing operation, null if the host has waited for all work.
  void give_back(std::uintptr_t address, std::shared_ptr<gpu_model::Node> freed);
  /// Returns completely free chunks to the system, but leaves at least `bytes_to_keep` bytes reserved.
  void trim(std::size_t bytes_to_keep);

  /// The block that contains the address, and the block's address; null if there is none.
  std::pair<std::uintptr_t, Block*> find(const void* address);
  /// The allocation at the address, or the last one there, also in memory that was returned to the system;
  /// null if there was none.
  std::shared_ptr<gpu_model::BlockHistory> history_at(const void* address) const;
  const std::map<std::uintptr_t, Block>& blocks() const { return blocks_; }

  int device() const { return device_; }
  std::size_t reserved() const { return reserved_; }
  std::size_t used() const { return used_; }
  std::size_t max_reserved = 0, max_used = 0;
  std::size_t capacity() const { return capacity_; }
  /// Bytes that stay reserved when the host waits for the device.
  std::uint64_t release_threshold = 0;
  int reuse_follow_event_dependencies = 1, reuse_allow_opportunistic = 1,
      reuse_allow_internal_dependencies = 1;

 private:
  enum class Reuse { ordered, opportunistic, internal };
  std::uintptr_t take_free(std::size_t bytes, const gpu_model::Clock& clock, Reuse reuse,
                           std::vector<std::shared_ptr<gpu_model::Node>>& wait_for);
  bool grow(std::size_t bytes);

  int device_;
  gpu_model::MemorySpace& space_;
  std::size_t capacity_;
  std::size_t reserved_ = 0, used_ = 0;
  std::map<std::uintptr_t, std::size_t> chunks_;  // bytes, by address
  std::map<std::uintptr_t, Block> blocks_;
  std::map<std::uintptr_t, Block> returned_;  // blocks of memory that was returned to the system
};
