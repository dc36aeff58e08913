#include <algorithm>

#include "core/numbers.h"
#include "plot/area_chart.h"
#include "profile/memory_levels.h"

namespace ringtape {
namespace {

/// By the category's number. Categories next to each other in the stack have very different colours.
constexpr std::array<int, kMemoryCategories> kColours = {7, 0, 3, 2, 1, 4, 6, 5};

std::vector<svg::Area> areas_of(std::span<const MemoryLevel> levels) {
  std::vector<svg::Area> areas;
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    svg::Area area{.name = name_of(static_cast<MemoryCategory>(i)), .colour = kColours[i], .heights = {}};
    for (const MemoryLevel& level : levels) {
      area.heights.push_back(mebibytes(level.live.bytes[i]));
    }
    if (*std::max_element(area.heights.begin(), area.heights.end()) > 0) areas.push_back(std::move(area));
  }
  return areas;
}

}  // namespace

std::vector<std::pair<std::string, int>> memory_legend(std::span<const MemoryLevel> levels) {
  std::vector<std::pair<std::string, int>> legend;
  for (const svg::Area& area : areas_of(levels)) legend.emplace_back(area.name, area.colour);
  return legend;
}

svg::Canvas memory_picture(std::span<const MemoryLevel> levels, double seconds, bool has_legend) {
  std::vector<double> moments;  // in ms
  for (const MemoryLevel& level : levels) moments.push_back(level.seconds * 1e3);
  const std::string peak = "peak " + bytes_text(static_cast<double>(peak_of(levels).live.total()));
  return area_chart(
      {.title = "memory by category over time", .x_name = "ms", .y_name = "MiB", .has_legend = has_legend},
      moments, seconds * 1e3, areas_of(levels), peak);
}

}  // namespace ringtape
