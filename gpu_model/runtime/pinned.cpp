#include "gpu_model/runtime/pinned.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "gpu_model/runtime/host_function.h"
#include "gpu_model/runtime/page.h"
#include "gpu_model/runtime/state.h"

namespace gpu_model {

void* PinnedMemory::allocate(std::size_t bytes, const void* caller) {
  const std::size_t mapped = round_up(bytes, kPage);
  const int file = memfd_create("pinned memory", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* address = MAP_FAILED;
  void* alias = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(mapped)) == 0) {
    address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    alias = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (address == MAP_FAILED || alias == MAP_FAILED) {
    if (address != MAP_FAILED) munmap(address, mapped);
    if (alias != MAP_FAILED) munmap(alias, mapped);
    return nullptr;
  }
  allocations_[reinterpret_cast<std::uintptr_t>(address)] = {++numbers_, bytes, mapped,
                                                             static_cast<char*>(alias), caller};
  return address;
}

bool PinnedMemory::free(void* address) {
  const auto it = allocations_.find(reinterpret_cast<std::uintptr_t>(address));
  if (it == allocations_.end()) return false;
  munmap(address, it->second.mapped_bytes);
  munmap(it->second.alias, it->second.mapped_bytes);
  allocations_.erase(it);
  return true;
}

std::pair<std::uintptr_t, const PinnedMemory::Allocation*> PinnedMemory::find(const void* address,
                                                                              std::size_t bytes) const {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  auto it = allocations_.upper_bound(place);
  if (it == allocations_.begin()) return {0, nullptr};
  --it;
  if (place + bytes > it->first + it->second.bytes || place >= it->first + it->second.mapped_bytes)
    return {0, nullptr};
  return {it->first, &it->second};
}

char* PinnedMemory::alias(const void* address) const {
  const auto [begin, allocation] = find(address, 0);
  return allocation->alias + (reinterpret_cast<std::uintptr_t>(address) - begin);
}

void PinnedMemory::use(const void* address, std::size_t bytes, bool writes, const Node& node) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  uses_.push_back({begin, bytes, writes, node.stamp, writes ? "writes" : "reads", node.operation->caller,
                   node.stream, comes_after_host_function(node)});
  protect(begin, bytes);
}

void PinnedMemory::host_has_waited_for(const Clock& clock) {
  for (auto it = uses_.begin(); it != uses_.end();) {
    if (!clock.knows(it->stamp)) {
      ++it;
      continue;
    }
    const Use use = *it;
    it = uses_.erase(it);
    if (find(reinterpret_cast<const void*>(use.begin), use.bytes).second != nullptr)
      protect(use.begin, use.bytes);
  }
}

const PinnedMemory::Use* PinnedMemory::use_of(const void* address) const {
  const auto [begin, allocation] = find(address, 0);
  if (allocation == nullptr) return nullptr;
  const auto it =
      std::find_if(uses_.begin(), uses_.end(), [&, first = begin, a = allocation](const Use& use) {
        return use.begin < first + a->bytes && first < use.begin + use.bytes;
      });
  return it == uses_.end() ? nullptr : &*it;
}

void PinnedMemory::lend(const std::function<bool(const Use&)>& comes_after) {
  for (Use& use : uses_) use.is_lent = comes_after(use);
  for (const Use& use : uses_) {
    if (use.is_lent) protect(use.begin, use.bytes);
  }
}

void PinnedMemory::take_back() {
  for (Use& use : uses_) {
    if (std::exchange(use.is_lent, false)) protect(use.begin, use.bytes);
  }
}

void PinnedMemory::open_page(std::uintptr_t address) {
  const std::uintptr_t page = address / kPage * kPage;
  const std::size_t place = opened_count_.fetch_add(1);
  if (place < opened_.size()) opened_[place] = page;  // further ones stay open
  mprotect(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE);
}

void PinnedMemory::close_pages() {
  if (opened_count_ == 0) return;
  const std::size_t count = std::min(opened_count_.exchange(0), opened_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t page = opened_[i].exchange(0);
    if (find(reinterpret_cast<const void*>(page), 1).second != nullptr) protect(page, kPage);
  }
}

/// Sets the protection of every page of the bytes to that required by the copies in flight.
void PinnedMemory::protect(std::uintptr_t begin, std::size_t bytes) const {
  const std::uintptr_t end = begin + bytes;
  const auto protection_of = [&](std::uintptr_t page) {
    int protection = PROT_READ | PROT_WRITE;
    for (const Use& use : uses_) {
      if (use.is_lent || use.begin >= page + kPage || page >= use.begin + use.bytes) continue;
      if (use.writes) return PROT_NONE;
      protection = PROT_READ;
    }
    return protection;
  };
  // Pages with the same protection in one call.
  std::uintptr_t first = begin / kPage * kPage;
  int protection = protection_of(first);
  for (std::uintptr_t page = first + kPage;; page += kPage) {
    const int next = page < end ? protection_of(page) : -1;
    if (next == protection) continue;
    mprotect(reinterpret_cast<void*>(first), page - first, protection);
    if (page >= end) return;
    first = page;
    protection = next;
  }
}

}  // namespace gpu_model
