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
  std::vector<SpanClock::duration>
      of_span;                       ///< by the span's index: for work queued in it, and in no inner span
  SpanClock::duration elsewhere{};   ///< for work queued in none of the spans
  SpanClock::duration busy{};        ///< with at least one activity: the sum of the two
  SpanClock::duration overlapped{};  ///< of it, with two or more at once
};

/// The activities that were queued in a step, or during one where no span is known: none of an evaluation.
std::vector<DeviceActivity> activities_of_steps(std::span<const Span> spans,
                                                std::span<const DeviceActivity> activities);

DeviceTime share_device_time(std::span<const Span> spans, std::span<const DeviceActivity> activities);

}  // namespace ringtape
