#include "core/chrome_trace.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace ringtape {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(SpanClock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// An event that gives a process or a thread its name.
Json naming(const char* what, int process, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::string chrome_events(std::span<const Span> spans, SpanClock::time_point zero, int process,
                          const std::string& name) {
  std::vector<std::string> events = {naming("process_name", process, 0, name).dump()};
  for (const Track track : {Track::compute, Track::waiting, Track::communication}) {
    events.push_back(naming("thread_name", process, static_cast<int>(track), name_of(track)).dump());
  }
  for (const Span& span : spans) {
    Json event = {{"name", span.name},
                  {"cat", name_of(span.track)},
                  {"ph", "X"},  // a complete event: begin and duration
                  {"pid", process},
                  {"tid", static_cast<int>(span.track)},
                  {"ts", microseconds(span.begin - zero)},
                  {"dur", microseconds(span.end - span.begin)}};
    for (const SpanArgument& argument : span.arguments) event["args"][argument.name] = argument.value;
    events.push_back(event.dump());
  }
  return fmt::format("{}", fmt::join(events, ",\n"));
}

std::string chrome_trace(std::span<const std::string> events) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", fmt::join(events, ",\n"));
}

}  // namespace ringtape
