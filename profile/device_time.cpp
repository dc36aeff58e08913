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

}  // namespace

DeviceTime share_device_time(std::span<const Span> spans, std::span<const DeviceActivity> activities) {
  std::unordered_map<std::uint64_t, std::size_t> place_of_id;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].id != 0) place_of_id[spans[i].id] = i;
  }
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
