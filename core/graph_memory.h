#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"

namespace ringtape {

class PoolBlocks;

/// The memory pool of work that is repeated as a graph: in its scope, allocate() in this thread reuses a
/// freed block of the requested size if there is one; new blocks too return to this pool when they are freed.
/// So a replay with the same sizes allocates no new memory, and no other code gets its blocks in between. The
/// blocks go back to the device's cache when this object and all tensors in them are gone.
class GraphMemoryPool {
 public:
  GraphMemoryPool();

  class Scope {
   public:
    explicit Scope(const GraphMemoryPool& memory);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::shared_ptr<PoolBlocks> previous_;
  };

  /// For allocate(): a block of the pool whose scope is open in this thread; if that has no free one, or
  /// without an open scope, a new one from `allocate`.
  using Allocate = std::shared_ptr<void> (*)(Device device, std::size_t bytes);
  static std::shared_ptr<void> take(Device device, std::size_t bytes, Allocate allocate);

 private:
  std::shared_ptr<PoolBlocks> blocks_;
};

}  // namespace ringtape
