#include "core/graph_memory.h"

#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "core/capture.h"

namespace ringtape {

/// The free blocks of a GraphMemoryPool, by device and size. A block in use keeps this object alive.
class PoolBlocks : public std::enable_shared_from_this<PoolBlocks> {
 public:
  std::shared_ptr<void> take(Device device, std::size_t bytes, GraphMemoryPool::Allocate allocate) {
    const Key key(device.type, device.index, bytes);
    std::shared_ptr<void> block = take_free(key);
    if (block == nullptr) {
      forbid_in_capture("the work allocates memory that its first run did not allocate");
      block = allocate(device, bytes);
    }
    void* const address = block.get();
    return {address, [pool = shared_from_this(), key, block = std::move(block)](void*) mutable {
              const std::lock_guard lock(pool->mutex_);
              pool->free_[key].push_back(std::move(block));
            }};
  }

 private:
  using Key = std::tuple<DeviceType, int, std::size_t>;

  std::shared_ptr<void> take_free(const Key& key) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<void>>& blocks = free_[key];
    if (blocks.empty()) return nullptr;
    std::shared_ptr<void> block = std::move(blocks.back());
    blocks.pop_back();
    return block;
  }

  std::mutex mutex_;
  std::map<Key, std::vector<std::shared_ptr<void>>> free_;
};

namespace {

thread_local std::shared_ptr<PoolBlocks> open_scope;

}  // namespace

GraphMemoryPool::GraphMemoryPool() : blocks_(std::make_shared<PoolBlocks>()) {}

GraphMemoryPool::Scope::Scope(const GraphMemoryPool& memory)
    : previous_(std::exchange(open_scope, memory.blocks_)) {}

GraphMemoryPool::Scope::~Scope() {
  open_scope = previous_;
}

std::shared_ptr<void> GraphMemoryPool::take(Device device, std::size_t bytes, Allocate allocate) {
  return open_scope ? open_scope->take(device, bytes, allocate) : allocate(device, bytes);
}

}  // namespace ringtape
