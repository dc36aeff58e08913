#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "trace/device_activity.h"
#include "trace/spans.h"

namespace ringtape {

/// What one process adds to a trace. All but `number`, `name` and `zero` may be left out.
struct ProcessTrace {
  int number = 0;                 ///< that viewers group by: the rank
  std::string name{};             ///< what they show for it
  SpanClock::time_point zero{};   ///< from which times count
  std::span<const Span> spans{};  ///< in the order in which they ended
  std::span<const DeviceActivity> activities{};
  const MemoryRecording* memory = nullptr;
};

/// The process as events of Chrome's trace format ("Trace Event Format", Google, 2016): objects with commas
/// between them. It has a row for each of: what a thread computes, what it waits for, communication, and each
/// stream of the device (those of NCCL's kernels are marked as communication); where things of one row
/// overlap, they go to more rows of the name. Activities are joined by arrows to the spans that queued them.
/// Memory is a counter of the bytes of each category.
std::string chrome_events(const ProcessTrace& process);

/// A trace file of the events of several processes. Perfetto (https://ui.perfetto.dev) and chrome://tracing
/// open it.
std::string chrome_trace(std::span<const std::string> events);

}  // namespace ringtape
