#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plot/canvas.h"
#include "trace/device_activity.h"
#include "trace/spans.h"

/// One step of one or more ranks, drawn as rows of spans over time.
namespace ringtape::report {

/// The rows of a rank, from top to bottom.
enum class Lane { phases, layers, operations, waiting, communication, device };
constexpr int kLanes = 6;
const char* name_of(Lane lane);

struct LaneSpan {
  Lane lane = Lane::phases;
  double begin = 0, end = 0;  ///< seconds
  int colour = 0;             ///< the number of a chart colour, from 0
  std::string name;
  std::string tip{};  ///< tooltip, may be empty
};

/// The number of a phase's colour in all pictures; 7 for a phase that has no colour.
int colour_of_phase(std::string_view name);

/// The span of kind `step` with this number; null if it was not recorded.
const Span* find_step(std::span<const Span> spans, std::int64_t step);

/// The spans of a step, with times relative to `zero`: compute spans of the step's thread, waiting and
/// communication spans of all threads, and the GPU's activities. Omits spans shorter than 1/5000 of the step,
/// and keeps the 500 longest of each lane, longest first.
std::vector<LaneSpan> lanes_of(std::span<const Span> spans, std::span<const DeviceActivity> activities,
                               const Span& step, SpanClock::time_point zero);

/// The phase of the step in which each operation, by its name, took most of its time.
std::map<std::string, std::string> phases_of_operations(std::span<const Span> spans, const Span& step);

/// Converts spans to text, for sending them between ranks, and back. The tooltips are lost.
std::string to_text(std::span<const LaneSpan> lanes);
std::vector<LaneSpan> lanes_from_text(const std::string& text);

/// The colours in use: the meaning and the number of each.
std::vector<std::pair<std::string, int>> legend_of(std::span<const std::vector<LaneSpan>> ranks);

/// Draws the time from 0 to `seconds`, with one group of rows for each rank.
svg::Canvas draw_timeline(std::span<const std::vector<LaneSpan>> ranks, double seconds);

}  // namespace ringtape::report
