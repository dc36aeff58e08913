#pragma once

#include <algorithm>

#include "core/memory.h"

namespace ringtape::test {

/// The live bytes at the peak of activations and their gradients. (The total peak is at another time if a
/// kernel has a large workspace, as products of f16 have on a CPU.)
inline BytesByCategory highest_activations(const MemoryRecording& recording) {
  using enum MemoryCategory;
  const auto passing = [](const BytesByCategory& live) {
    return live[activations] + live[activation_gradients];
  };
  BytesByCategory live = recording.start(), highest = live;
  for (const MemoryEvent& event : recording.events()) {
    live[event.category] += static_cast<std::size_t>(event.bytes);
    if (passing(live) > passing(highest)) highest = live;
  }
  return highest;
}

/// The live bytes at the peak of all categories that the formulas have: without workspace.
inline BytesByCategory highest_without_workspace(const MemoryRecording& recording) {
  using enum MemoryCategory;
  const auto counted = [](const BytesByCategory& live) { return live.total() - live[workspace]; };
  BytesByCategory live = recording.start(), highest = live;
  for (const MemoryEvent& event : recording.events()) {
    live[event.category] += static_cast<std::size_t>(event.bytes);
    if (counted(live) > counted(highest)) highest = live;
  }
  return highest;
}

/// The most live bytes of a category at a time while `body` runs.
template <class Body>
std::size_t peak_of(MemoryCategory category, Device device, const Body& body) {
  MemoryRecording recording(device);
  body();
  recording.stop();
  std::size_t now = recording.start()[category], most = now;
  for (const MemoryEvent& event : recording.events()) {
    if (event.category != category) continue;
    now += static_cast<std::size_t>(event.bytes);
    most = std::max(most, now);
  }
  return most;
}

}  // namespace ringtape::test
