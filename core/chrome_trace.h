#pragma once

#include <span>
#include <string>

#include "core/spans.h"

namespace ringtape {

/// The spans of one process as events of Chrome's trace format ("Trace Event Format", Google, 2016): objects
/// with commas between them, with one thread for each track. Times count from `zero`. `process` is the number
/// that viewers group by, `name` what they show for it.
std::string chrome_events(std::span<const Span> spans, SpanClock::time_point zero, int process,
                          const std::string& name);

/// A trace file of the events of several processes. Perfetto (https://ui.perfetto.dev) and chrome://tracing
/// open it.
std::string chrome_trace(std::span<const std::string> events);

}  // namespace ringtape
