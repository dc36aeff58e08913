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

/// A piece of a device's memory: an allocation, or free.
struct Block {
  std::size_t bytes = 0;  ///< multiple of 512
  bool is_free = true;
  std::shared_ptr<Node> freed;  ///< the operation that freed it; null for memory that nobody has had
  // Of an allocation, and of the last one where it is free:
  std::uint64_t number = 0;   ///< from 1 on; 0: nobody has had it
  std::size_t asked_for = 0;  ///< bytes
  const char* function = "";  ///< cudaMalloc or cudaMallocAsync
  const void* caller = nullptr;
  int stream = -1;        ///< number of the stream, -1 for cudaMalloc
  bool in_graph = false;  ///< belongs to a graph: there once a launch has allocated it, until it is freed
  bool is_launched = false;
  BlockHistory history{};
};

}  // namespace gpu_model

/// A device's memory, as blocks that fill chunks taken from the system without a gap. It stands for the
/// default pool of stream-ordered allocation and for cudaMalloc's memory together.
struct CUmemPoolHandle_st {
  using Block = gpu_model::Block;

  CUmemPoolHandle_st(int device, gpu_model::MemorySpace& space, std::size_t capacity)
      : device_(device), space_(space), capacity_(capacity) {}

  /// A block of at least `bytes` for use by whatever comes after `clock`: memory that was freed before that
  /// (in the order of streams and events), or whose free has run, or that is new. `wait_for` is what the user
  /// has to wait for besides: a free that is not ordered before. 0 when the device has no memory left.
  std::uintptr_t take(std::size_t bytes, const gpu_model::Clock& clock,
                      std::vector<std::shared_ptr<gpu_model::Node>>& wait_for);
  /// Frees an allocation; `freed` is the operation that does, null when the host has waited for everything.
  void give_back(std::uintptr_t address, std::shared_ptr<gpu_model::Node> freed);
  /// Gives chunks that are free as a whole back to the system until no more than `bytes_to_keep` are left.
  void trim(std::size_t bytes_to_keep);

  /// The block that the address lies in, and where it begins; null where there is none.
  std::pair<std::uintptr_t, Block*> find(const void* address);
  const std::map<std::uintptr_t, Block>& blocks() const { return blocks_; }

  int device() const { return device_; }
  std::size_t reserved() const { return reserved_; }
  std::size_t used() const { return used_; }
  std::size_t most_reserved = 0, most_used = 0;
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
};
