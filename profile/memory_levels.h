#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "plot/canvas.h"

namespace ringtape {

/// The live bytes from a moment on.
struct MemoryLevel {
  double seconds = 0;  ///< since the recording began
  BytesByCategory live;
};

/// The start of a recording, and the level after each event.
std::vector<MemoryLevel> memory_levels(const MemoryRecording& recording);

/// The first level with the most memory. `levels` must not be empty.
const MemoryLevel& peak_of(std::span<const MemoryLevel> levels);

/// The levels as a picture: time to the right until `seconds`, the categories stacked upwards, the peak
/// marked. `has_legend` is false where the page has a legend of its own: memory_legend().
svg::Canvas memory_picture(std::span<const MemoryLevel> levels, double seconds, bool has_legend = true);

/// The categories in the picture, each with the number of its colour.
std::vector<std::pair<std::string, int>> memory_legend(std::span<const MemoryLevel> levels);

}  // namespace ringtape
