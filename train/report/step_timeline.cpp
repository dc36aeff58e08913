#include "train/report/step_timeline.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace ringtape::report {
namespace {

constexpr double kMinSpanShare = 1.0 / 5000;
constexpr std::size_t kMaxSpansOfLane = 500;

bool is_inside(const Span& span, const Span& outer) {
  return outer.begin <= span.begin && span.end <= outer.end;
}

/// The phases of a step.
std::vector<Span> phases_in(std::span<const Span> spans, const Span& step) {
  std::vector<Span> phases;
  for (const Span& span : spans) {
    if (span.kind == SpanKind::phase && span.thread == step.thread && is_inside(span, step))
      phases.push_back(span);
  }
  return phases;
}

/// The name of the innermost phase of the step's thread at a given time.
std::string phase_at(std::span<const Span> phases, SpanClock::time_point moment) {
  const Span* innermost = nullptr;
  for (const Span& phase : phases) {
    const bool is_around = phase.begin <= moment && moment < phase.end;
    if (is_around && (innermost == nullptr || phase.depth > innermost->depth)) innermost = &phase;
  }
  return innermost == nullptr ? "other" : innermost->name;
}

Lane lane_of(const Span& span) {
  if (span.track == Track::waiting) return Lane::waiting;
  if (span.track == Track::communication) return Lane::communication;
  return span.kind == SpanKind::phase   ? Lane::phases
         : span.kind == SpanKind::layer ? Lane::layers
                                        : Lane::operations;
}

int colour_of(Lane lane, const Span& span, std::span<const Span> phases) {
  switch (lane) {
    case Lane::layers:
      return 4;
    case Lane::waiting:
      return 3;
    case Lane::communication:
      return 6;
    default:
      return colour_of_phase(lane == Lane::phases ? span.name : phase_at(phases, span.begin));
  }
}

/// Keeps the longest spans of each lane; outer spans come first, so that they are drawn below.
void thin_out(std::vector<LaneSpan>& spans) {
  const auto length = [](const LaneSpan& span) { return span.end - span.begin; };
  std::stable_sort(spans.begin(), spans.end(),
                   [&](const LaneSpan& a, const LaneSpan& b) { return length(a) > length(b); });
  std::array<std::size_t, kLanes> seen{};
  std::erase_if(spans, [&](const LaneSpan& span) {
    return seen[static_cast<std::size_t>(span.lane)]++ >= kMaxSpansOfLane;
  });
}

}  // namespace

const char* name_of(Lane lane) {
  constexpr const char* kNames[kLanes] = {"phases",  "layers",        "operations",
                                          "waiting", "communication", "device"};
  return kNames[static_cast<std::size_t>(lane)];
}

int colour_of_phase(std::string_view name) {
  constexpr std::pair<std::string_view, int> kColours[] = {
      {"data", 5},    {"forward", 0},   {"backward", 1}, {"all-reduce", 6},
      {"waiting", 3}, {"optimizer", 2}, {"other", 4}};
  for (const auto& [phase, colour] : kColours) {
    if (phase == name) return colour;
  }
  return 7;
}

const Span* find_step(std::span<const Span> spans, std::int64_t step) {
  const std::string name = fmt::format("step {}", step);
  const auto found = std::find_if(spans.begin(), spans.end(), [&](const Span& span) {
    return span.kind == SpanKind::step && span.name == name;
  });
  return found == spans.end() ? nullptr : &*found;
}

std::vector<LaneSpan> lanes_of(std::span<const Span> spans, std::span<const DeviceActivity> activities,
                               const Span& step, SpanClock::time_point zero) {
  const std::vector<Span> phases = phases_in(spans, step);
  const auto seconds = [&](SpanClock::time_point time) {
    return std::chrono::duration<double>(time - zero).count();
  };
  const auto least = std::chrono::duration_cast<SpanClock::duration>((step.end - step.begin) * kMinSpanShare);
  std::vector<LaneSpan> lanes;
  for (const Span& span : spans) {
    const Lane lane = lane_of(span);
    const bool is_other_thread = span.track == Track::compute && span.thread != step.thread;
    // The span of the whole model would hide those of its layers.
    const bool is_whole = span.kind == SpanKind::step || (lane == Lane::layers && span.layer == "model");
    // Communication may go on from one step into the next.
    const SpanClock::time_point begin = std::max(span.begin, step.begin), end = std::min(span.end, step.end);
    if (is_other_thread || is_whole || end - begin < least) continue;
    lanes.push_back({.lane = lane,
                     .begin = seconds(begin),
                     .end = seconds(end),
                     .colour = colour_of(lane, span, phases),
                     .name = span.name,
                     .tip = span.shapes});
  }
  for (const DeviceActivity& activity : activities) {
    const bool meets_step = activity.begin < step.end && activity.end > step.begin;
    if (!meets_step || activity.end - activity.begin < least) continue;
    lanes.push_back({.lane = Lane::device,
                     .begin = seconds(activity.begin),
                     .end = seconds(activity.end),
                     .colour = is_communication(activity) ? 6 : 5,
                     .name = activity.name});
  }
  thin_out(lanes);
  return lanes;
}

std::map<std::string, std::string> phases_of_operations(std::span<const Span> spans, const Span& step) {
  const std::vector<Span> phases = phases_in(spans, step);
  std::map<std::string, std::map<std::string, SpanClock::duration>> times;
  for (const Span& span : spans) {
    const bool counts =
        span.kind == SpanKind::operation && span.thread == step.thread && is_inside(span, step);
    if (counts) times[span.name][phase_at(phases, span.begin)] += span.end - span.begin;
  }
  std::map<std::string, std::string> phase_of;
  for (const auto& [name, of_phases] : times) {
    phase_of[name] = std::max_element(of_phases.begin(), of_phases.end(), [](const auto& a, const auto& b) {
                       return a.second < b.second;
                     })->first;
  }
  return phase_of;
}

std::vector<std::pair<std::string, int>> legend_of(std::span<const std::vector<LaneSpan>> ranks) {
  std::array<bool, svg::kColours> is_used{};
  for (const std::vector<LaneSpan>& spans : ranks) {
    for (const LaneSpan& span : spans) is_used[static_cast<std::size_t>(span.colour)] = true;
  }
  constexpr const char* kNames[svg::kColours] = {"forward",       "backward",           "optimizer",
                                                 "waiting",       "layer, or no phase", "data, or the GPU",
                                                 "communication", "another phase"};
  std::vector<std::pair<std::string, int>> legend;
  for (int i = 0; i < svg::kColours; ++i) {
    const auto colour = static_cast<std::size_t>(i);
    if (is_used[colour]) legend.emplace_back(kNames[colour], i);
  }
  return legend;
}

std::string to_text(std::span<const LaneSpan> lanes) {
  std::string text;
  for (const LaneSpan& span : lanes) {
    text += fmt::format("{} {} {} {} {}\n", static_cast<int>(span.lane), span.begin, span.end, span.colour,
                        span.name);
  }
  return text;
}

std::vector<LaneSpan> lanes_from_text(const std::string& text) {
  std::vector<LaneSpan> lanes;
  std::istringstream stream(text);
  int lane = 0;
  for (LaneSpan span; stream >> lane >> span.begin >> span.end >> span.colour;) {
    span.lane = static_cast<Lane>(lane);
    stream.get();
    std::getline(stream, span.name);
    lanes.push_back(span);
  }
  return lanes;
}

}  // namespace ringtape::report
