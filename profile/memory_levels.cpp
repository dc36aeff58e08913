#include "profile/memory_levels.h"

#include <algorithm>

namespace ringtape {

std::vector<MemoryLevel> memory_levels(const MemoryRecording& recording) {
  std::vector<MemoryLevel> levels = {{0, recording.start()}};
  for (const MemoryEvent& event : recording.events()) {
    const double seconds = std::chrono::duration<double>(event.time - recording.begin()).count();
    MemoryLevel next{seconds, levels.back().live};
    next.live[event.category] += static_cast<std::size_t>(event.bytes);  // modulo 2^64: less where negative
    levels.push_back(next);
  }
  return levels;
}

const MemoryLevel& peak_of(std::span<const MemoryLevel> levels) {
  return *std::max_element(levels.begin(), levels.end(), [](const MemoryLevel& a, const MemoryLevel& b) {
    return a.live.total() < b.live.total();
  });
}

}  // namespace ringtape
