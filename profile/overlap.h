#pragma once

#include <chrono>
#include <span>

#include "trace/device_activity.h"
#include "trace/spans.h"

namespace ringtape {

/// How much of a rank's communication went on while it computed. What happens twice at the same time counts
/// once.
struct Overlap {
  SpanClock::duration compute{};        ///< in spans of compute, and not waiting
  SpanClock::duration waiting{};        ///< for communication
  SpanClock::duration communication{};  ///< with data on its way
  SpanClock::duration hidden{};         ///< of communication: the part while this rank computed

  /// hidden / communication; 0 where there was none.
  double hidden_share() const;
};

/// Works it out from what a SpanRecording has recorded.
Overlap measure_overlap(std::span<const Span> spans);

/// The same of a GPU: kernels of NCCL are communication, all else is compute, and the rank waits where
/// nothing but communication runs.
Overlap measure_device_overlap(std::span<const DeviceActivity> activities);

}  // namespace ringtape
