#include "profile/device_time.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace ringtape {
namespace {

/// A moment in which an activity begins or ends.
struct Change {
  SpanClock::time_point when;
  bool is_begin;
  std::size_t activity;

  /// Ends come first, so that adjacent activities never overlap.
  bool operator<(const Change& other) const {
    return when != other.when ? when < other.when : is_begin < other.is_begin;
  }
};

std::vector<Change> changes_of(std::span<const DeviceActivity> activities) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < activities.size(); ++i) {
    if (activities[i].begin >= activities[i].end) continue;
    changes.push_back({activities[i].begin, true, i});
    changes.push_back({activities[i].end, false, i});
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

std::unordered_map<std::uint64_t, std::size_t> places_by_id(std::span<const Span> spans) {
  std::unordered_map<std::uint64_t, std::size_t> place_of_id;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].id != 0) place_of_id[spans[i].id] = i;
  }
  return place_of_id;
}

}  // namespace

std::vector<DeviceActivity> activities_of_steps(std::span<const Span> spans,
                                                std::span<const DeviceActivity> activities) {
  std::vector<const Span*> steps;
  for (const Span& span : spans) {
    if (span.kind == SpanKind::step) steps.push_back(&span);
  }
  const auto meets_step = [&steps](const auto& interval) {
    return std::any_of(steps.begin(), steps.end(), [&](const Span* step) {
      return interval.begin < step->end && step->begin < interval.end;
    });
  };
  const std::unordered_map<std::uint64_t, std::size_t> place_of_id = places_by_id(spans);
  std::vector<DeviceActivity> kept;
  for (const DeviceActivity& activity : activities) {
    // By its span if that is known, as the device runs behind the host.
    const auto place = place_of_id.find(activity.span);
    const bool is_of_step =
        place == place_of_id.end() ? meets_step(activity) : meets_step(spans[place->second]);
    if (is_of_step) kept.push_back(activity);
  }
  return kept;
}

DeviceTime share_device_time(std::span<const Span> spans, std::span<const DeviceActivity> activities) {
  const std::unordered_map<std::uint64_t, std::size_t> place_of_id = places_by_id(spans);
  DeviceTime result;
  result.of_span.resize(spans.size());
  const auto charge = [&](const DeviceActivity& activity, SpanClock::duration time) {
    const auto place = place_of_id.find(activity.span);
    (place == place_of_id.end() ? result.elsewhere : result.of_span[place->second]) += time;
  };

  std::set<std::size_t> running;
  SpanClock::time_point last{};
  for (const Change& change : changes_of(activities)) {
    if (!running.empty()) {
      const SpanClock::duration time = change.when - last;
      const auto count = static_cast<SpanClock::rep>(running.size());
      result.busy += time;
      if (count > 1) result.overlapped += time;
      for (const std::size_t each : running) charge(activities[each], time / count);
      charge(activities[*running.begin()], time % count);  // the remainder of the division, in nanoseconds
    }
    last = change.when;
    if (change.is_begin) {
      running.insert(change.activity);
    } else {
      running.erase(change.activity);
    }
  }
  return result;
}

}  // namespace ringtape
