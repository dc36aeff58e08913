#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "trace/device_activity.h"
#include "trace/spans.h"

namespace ringtape {

/// How much of a rank's communication overlapped with its computation. Time covered by several spans counts
/// once.
struct Overlap {
  SpanClock::duration compute{};        ///< in spans of compute, and not waiting
  SpanClock::duration waiting{};        ///< for communication
  SpanClock::duration communication{};  ///< with data in flight
  SpanClock::duration hidden{};         ///< the part of `communication` while this rank computed

  /// hidden / communication; 0 where there was none.
  double hidden_share() const;
};

/// The parts of the spans that lie in a step. Communication that continues in the next step gives a part for
/// each of the two.
std::vector<Span> inside_of_steps(std::span<const Span> spans);

/// The overlap in the spans of a SpanRecording.
Overlap measure_overlap(std::span<const Span> spans);

/// The same for a GPU: NCCL's kernels are communication, all others are compute, and the rank waits while
/// only communication runs.
Overlap measure_device_overlap(std::span<const DeviceActivity> activities);

}  // namespace ringtape
