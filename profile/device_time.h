#pragma once

#include <span>
#include <vector>

#include "trace/device_activity.h"
#include "trace/spans.h"

namespace ringtape {

/// A device's time, divided among the host's spans that queued its work. A moment in which n activities run
/// at once, on several streams, counts 1/n for each, so that the shares add up to the time in which the
/// device was busy.
struct DeviceTime {
  /// By the span's index: of the work queued in it, and in no inner span.
  std::vector<SpanClock::duration> of_span;
  SpanClock::duration elsewhere{};   ///< of the work queued in none of the spans
  SpanClock::duration busy{};        ///< with at least one activity: the sum of all the above
  SpanClock::duration overlapped{};  ///< the part of `busy` with two or more activities at once
};

/// The activities that belong to steps, not to work between steps such as an evaluation: those whose span
/// overlaps a step or, if an activity's span is not known, that overlap a step themselves.
std::vector<DeviceActivity> activities_of_steps(std::span<const Span> spans,
                                                std::span<const DeviceActivity> activities);

/// Divides the time of the activities among the spans.
DeviceTime share_device_time(std::span<const Span> spans, std::span<const DeviceActivity> activities);

}  // namespace ringtape
