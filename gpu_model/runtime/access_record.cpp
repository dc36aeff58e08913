#include "gpu_model/runtime/access_record.h"

#include <atomic>
#include <bitset>
#include <map>
#include <memory>
#include <mutex>

#include "gpu_model/runtime/page.h"
#include "gpu_model/runtime/state.h"
#include "gpu_model/runtime/stream.h"

namespace gpu_model {
namespace {

/// A bit for each byte of a page of memory.
struct Page {
  std::bitset<kPage> read, written;
};

/// The accesses that one host thread has recorded: a kernel's blocks are distributed over several threads.
struct OfThread {
  std::map<std::uintptr_t, Page> pages;  ///< by number
  std::uintptr_t last_number = 0;
  Page* last = nullptr;

  Page& page(std::uintptr_t number) {
    if (last == nullptr || number != last_number) last = &pages[number], last_number = number;
    return *last;
  }
};

std::atomic<bool> records = false;
std::mutex threads_mutex;
std::vector<std::shared_ptr<OfThread>>& all_threads() {
  static auto* const all = new std::vector<std::shared_ptr<OfThread>>;
  return *all;
}

OfThread& of_this_thread() {
  static thread_local const std::shared_ptr<OfThread> mine = [] {
    auto made = std::make_shared<OfThread>();
    const std::lock_guard lock(threads_mutex);
    all_threads().push_back(made);
    return made;
  }();
  return *mine;
}

void append_pieces(const std::map<std::uintptr_t, Page>& pages, bool writes, std::vector<Touched>& pieces) {
  const std::size_t first = pieces.size();
  for (const auto& [number, page] : pages) {
    const std::bitset<kPage>& bits = writes ? page.written : page.read;
    if (bits.none()) continue;
    for (std::uintptr_t i = 0; i < kPage; ++i) {
      if (!bits[i]) continue;
      const std::uintptr_t byte = number * kPage + i;
      if (pieces.size() > first && pieces.back().end == byte) {
        ++pieces.back().end;
      } else {
        pieces.push_back({byte, byte + 1, writes});
      }
    }
  }
}

}  // namespace

void begin_access_record() {
  records = true;
}

std::vector<Touched> end_access_record() {
  records = false;
  const std::lock_guard lock(threads_mutex);
  std::map<std::uintptr_t, Page> pages;
  for (const auto& thread : all_threads()) {
    for (const auto& [number, page] : thread->pages) {
      pages[number].read |= page.read;
      pages[number].written |= page.written;
    }
    *thread = {};
  }
  std::vector<Touched> pieces;
  append_pieces(pages, false, pieces);
  append_pieces(pages, true, pieces);
  return pieces;
}

void note_access(const void* memory, std::size_t bytes, bool writes) {
  if (!records.load(std::memory_order_relaxed) || memory_device(memory) < 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  for (std::uintptr_t byte = begin; byte < begin + bytes; ++byte) {
    Page& page = of_this_thread().page(byte / kPage);
    (writes ? page.written : page.read).set(byte % kPage);
  }
}

}  // namespace gpu_model
