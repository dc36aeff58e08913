#include "gpu_model/runtime/pool.h"

#include <algorithm>
#include <iterator>

#include "gpu_model/runtime/memory_space.h"
#include "gpu_model/runtime/page.h"
#include "gpu_model/runtime/state.h"

namespace {

using gpu_model::Clock;
using gpu_model::NodePtr;
using gpu_model::round_up;

constexpr std::size_t kUnit = 512;
constexpr std::size_t kMinChunk = std::size_t{32} << 20;
constexpr std::size_t kChunkUnit = std::size_t{2} << 20;

/// The block that contains the address.
template <class Blocks>
auto find_in(Blocks& blocks, const void* address) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  auto it = blocks.upper_bound(place);
  if (it == blocks.begin()) return blocks.end();
  --it;
  return place < it->first + it->second.bytes ? it : blocks.end();
}

}  // namespace

std::uintptr_t CUmemPoolHandle_st::take(std::size_t bytes, const Clock& clock,
                                        std::vector<NodePtr>& wait_for) {
  if (bytes > capacity_) return 0;
  const std::size_t rounded = round_up(bytes, kUnit);
  std::uintptr_t address = take_free(rounded, clock, Reuse::ordered, wait_for);
  if (address == 0 && reuse_allow_opportunistic != 0) {
    address = take_free(rounded, clock, Reuse::opportunistic, wait_for);
  }
  if (address == 0 && grow(rounded)) address = take_free(rounded, clock, Reuse::ordered, wait_for);
  if (address == 0 && reuse_allow_internal_dependencies != 0) {
    address = take_free(rounded, clock, Reuse::internal, wait_for);
  }
  return address;
}

std::uintptr_t CUmemPoolHandle_st::take_free(std::size_t bytes, const Clock& clock, Reuse reuse,
                                             std::vector<NodePtr>& wait_for) {
  const auto usable = [&](const Block& block) {
    if (!block.is_free) return false;
    if (block.freed == nullptr || clock.knows(block.freed->stamp)) return true;
    return reuse == Reuse::internal || (reuse == Reuse::opportunistic && block.freed->done);
  };
  // The smallest sufficient sequence of adjacent usable blocks within a chunk.
  std::uintptr_t best = 0, row = 0;
  std::size_t best_bytes = 0, row_bytes = 0;
  const auto end_row = [&] {
    if (row_bytes >= bytes && (best == 0 || row_bytes < best_bytes)) best = row, best_bytes = row_bytes;
    row_bytes = 0;
  };
  for (const auto& [address, block] : blocks_) {
    if (row_bytes > 0 && (!usable(block) || chunks_.contains(address))) end_row();
    if (!usable(block)) continue;
    if (row_bytes == 0) row = address;
    row_bytes += block.bytes;
  }
  end_row();
  if (best == 0) return 0;

  std::size_t taken = 0;
  for (auto it = blocks_.find(best); taken < bytes; it = blocks_.erase(it)) {
    Block block = it->second;
    if (block.freed != nullptr && !clock.knows(block.freed->stamp)) wait_for.push_back(block.freed);
    taken += block.bytes;
    if (taken > bytes) {
      const std::size_t rest = taken - bytes;
      block.bytes = rest;
      blocks_.emplace(best + bytes, block);
    }
  }
  Block& block = blocks_[best];
  block.bytes = bytes;
  block.is_free = false;
  used_ += bytes;
  max_used = std::max(max_used, used_);
  return best;
}

bool CUmemPoolHandle_st::grow(std::size_t bytes) {
  std::size_t chunk = std::max(kMinChunk, round_up(bytes, kChunkUnit));
  if (reserved_ + chunk > capacity_) chunk = round_up(bytes, kChunkUnit);
  if (reserved_ + chunk > capacity_) trim(0);
  if (reserved_ + chunk > capacity_) return false;
  const std::uintptr_t address = space_.grow(chunk);
  if (address == 0) return false;
  returned_.erase(returned_.lower_bound(address), returned_.lower_bound(address + chunk));
  chunks_.emplace(address, chunk);
  blocks_[address].bytes = chunk;
  reserved_ += chunk;
  max_reserved = std::max(max_reserved, reserved_);
  return true;
}

void CUmemPoolHandle_st::give_back(std::uintptr_t address, NodePtr freed) {
  Block& block = blocks_.at(address);
  block.is_free = true;
  block.freed = std::move(freed);
  used_ -= block.bytes;
}

void CUmemPoolHandle_st::trim(std::size_t bytes_to_keep) {
  for (auto chunk = chunks_.begin(); chunk != chunks_.end() && reserved_ > bytes_to_keep;) {
    const auto first = blocks_.find(chunk->first);
    const auto last = blocks_.lower_bound(chunk->first + chunk->second);
    const bool is_free = std::all_of(first, last, [](const auto& entry) {
      return entry.second.is_free && (entry.second.freed == nullptr || entry.second.freed->done);
    });
    if (!is_free || reserved_ - chunk->second < bytes_to_keep) {
      ++chunk;
      continue;
    }
    for (auto it = first; it != last;) {
      const auto next = std::next(it);
      if (it->second.history != nullptr) it->second.history->accesses.clear();
      returned_.insert(blocks_.extract(it));
      it = next;
    }
    space_.release(chunk->first, chunk->second);
    reserved_ -= chunk->second;
    chunk = chunks_.erase(chunk);
  }
}

std::pair<std::uintptr_t, gpu_model::Block*> CUmemPoolHandle_st::find(const void* address) {
  const auto it = find_in(blocks_, address);
  if (it == blocks_.end()) return {0, nullptr};
  return {it->first, &it->second};
}

std::shared_ptr<gpu_model::BlockHistory> CUmemPoolHandle_st::history_at(const void* address) const {
  const auto it = find_in(blocks_, address);
  if (it != blocks_.end()) return it->second.history;
  const auto returned = find_in(returned_, address);
  return returned == returned_.end() ? nullptr : returned->second.history;
}
