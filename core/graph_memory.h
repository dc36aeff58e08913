#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"

namespace ringtape {

class PoolBlocks;

/// The memory pool of work that is repeated as a graph: in its scope, allocate() in this thread gives out
/// blocks that were given back before, if there is one of the size, and keeps new ones. So a repetition that
/// asks for the same sizes takes no new memory, and nobody else gets at what it uses in between. The blocks
/// go back to the device's cache when this object and all tensors in them are gone.
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

  /// For allocate(): a block of the scope that is open in this thread, which gets new ones by `allocate`;
  /// what that returns where none is open.
  using Allocate = std::shared_ptr<void> (*)(Device device, std::size_t bytes);
  static std::shared_ptr<void> take(Device device, std::size_t bytes, Allocate allocate);

 private:
  std::shared_ptr<PoolBlocks> blocks_;
};

}  // namespace ringtape
