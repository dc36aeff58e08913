#include "profile/overlap.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ringtape {
namespace {

using Time = SpanClock::time_point;
using Interval = std::pair<Time, Time>;
/// Sorted and disjoint.
using Intervals = std::vector<Interval>;

Intervals merge(Intervals all) {
  std::sort(all.begin(), all.end());
  Intervals merged;
  for (const Interval& interval : all) {
    if (merged.empty() || merged.back().second < interval.first) {
      merged.push_back(interval);
    } else {
      merged.back().second = std::max(merged.back().second, interval.second);
    }
  }
  return merged;
}

Intervals intervals_of(std::span<const Span> spans, Track track) {
  Intervals all;
  for (const Span& span : spans) {
    if (span.kind == SpanKind::step) continue;  // covers waiting as well as computing
    if (span.track == track && span.begin < span.end) all.emplace_back(span.begin, span.end);
  }
  return merge(std::move(all));
}

Intervals intervals_of(std::span<const DeviceActivity> activities, bool of_communication) {
  Intervals all;
  for (const DeviceActivity& activity : activities) {
    if (is_communication(activity) == of_communication && activity.begin < activity.end) {
      all.emplace_back(activity.begin, activity.end);
    }
  }
  return merge(std::move(all));
}

SpanClock::duration length(const Intervals& intervals) {
  SpanClock::duration sum{};
  for (const auto& [begin, end] : intervals) sum += end - begin;
  return sum;
}

Intervals intersection(const Intervals& a, const Intervals& b) {
  Intervals common;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    const Time begin = std::max(i->first, j->first), end = std::min(i->second, j->second);
    if (begin < end) common.emplace_back(begin, end);
    i->second < j->second ? ++i : ++j;
  }
  return common;
}

}  // namespace

double Overlap::hidden_share() const {
  return communication.count() == 0
             ? 0
             : static_cast<double>(hidden.count()) / static_cast<double>(communication.count());
}

std::vector<Span> inside_of_steps(std::span<const Span> spans) {
  std::vector<Span> inside;
  for (const Span& step : spans) {
    if (step.kind != SpanKind::step) continue;
    for (const Span& span : spans) {
      const Time begin = std::max(span.begin, step.begin), end = std::min(span.end, step.end);
      if (begin >= end) continue;
      inside.push_back(span);
      std::tie(inside.back().begin, inside.back().end) = std::pair(begin, end);
    }
  }
  return inside;
}

Overlap measure_overlap(std::span<const Span> spans) {
  const Intervals compute = intervals_of(spans, Track::compute);
  const Intervals waiting = intervals_of(spans, Track::waiting);
  const Intervals communication = intervals_of(spans, Track::communication);
  const Intervals both = intersection(compute, communication);
  // Waiting lies inside spans of compute, so it is subtracted.
  return {.compute = length(compute) - length(intersection(compute, waiting)),
          .waiting = length(waiting),
          .communication = length(communication),
          .hidden = length(both) - length(intersection(both, waiting))};
}

Overlap measure_device_overlap(std::span<const DeviceActivity> activities) {
  const Intervals compute = intervals_of(activities, false);
  const Intervals communication = intervals_of(activities, true);
  const SpanClock::duration hidden = length(intersection(compute, communication));
  return {.compute = length(compute),
          .waiting = length(communication) - hidden,
          .communication = length(communication),
          .hidden = hidden};
}

}  // namespace ringtape
