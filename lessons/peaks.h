#pragma once

#include <algorithm>

#include "core/memory.h"

namespace ringtape::lessons {

/// The most bytes of each category that were live at a time, each at its own time.
inline BytesByCategory peak_of(const MemoryRecording& recording) {
  BytesByCategory now = recording.start(), most = now;
  for (const MemoryEvent& event : recording.events()) {
    now[event.category] += static_cast<std::size_t>(event.bytes);
    most[event.category] = std::max(most[event.category], now[event.category]);
  }
  return most;
}

}  // namespace ringtape::lessons
