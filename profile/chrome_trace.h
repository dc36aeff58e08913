#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "trace/device_activity.h"
#include "trace/spans.h"

namespace ringtape {

/// One process of a trace. All members but `number`, `name` and `zero` may be left out.
struct ProcessTrace {
  int number = 0;                 ///< the rank; viewers group rows by it
  std::string name{};             ///< shown by viewers
  SpanClock::time_point zero{};   ///< time 0 of the trace
  std::span<const Span> spans{};  ///< in the order in which they ended
  std::span<const DeviceActivity> activities{};
  const MemoryRecording* memory = nullptr;
};

/// The process as events of Chrome's trace format ("Trace Event Format", Google, 2016): JSON objects
/// separated by commas. It has rows for each thread's computation, for its waiting, for the communication of
/// each process group ("communication, tensor"), and for each stream of the device (streams of NCCL's kernels
/// are marked as communication). Events that overlap without nesting go to further rows ("compute 2"). An
/// arrow leads from a span to each activity that it queued. Memory is a counter of the bytes of each
/// category.
std::string chrome_events(const ProcessTrace& process);

/// A trace file of the events of several processes. Perfetto (https://ui.perfetto.dev) and chrome://tracing
/// open it.
std::string chrome_trace(std::span<const std::string> events);

}  // namespace ringtape
