#include "profile/chrome_trace.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "io/json.h"
#include "profile/trace_rows.h"

namespace ringtape {
namespace {

std::string by_x(const std::array<int, 3>& sizes) {
  return fmt::format("{}", fmt::join(sizes, "x"));
}

Json arguments_of(const Span& span) {
  Json arguments;
  if (!span.shapes.empty()) arguments["shapes"] = span.shapes;
  if (span.work.flops > 0) arguments["FLOPs"] = span.work.flops;
  if (span.work.bytes > 0) arguments["bytes"] = span.work.bytes;
  for (const SpanArgument& argument : span.arguments) arguments[argument.name] = argument.value;
  return arguments;
}

Json arguments_of(const DeviceActivity& activity) {
  Json arguments;
  if (activity.work == DeviceWork::kernel) {
    arguments["grid"] = by_x(activity.grid);
    arguments["block"] = by_x(activity.block);
  } else {
    arguments["bytes"] = activity.bytes;
  }
  if (activity.graph_node != 0) arguments["graph node"] = activity.graph_node;
  return arguments;
}

/// Pointers to the items in the order of their begin, outer items before inner ones. Inner items end first,
/// so `items` is reversed: of two items with the same times the outer one stays first.
template <typename Item>
std::vector<const Item*> from_the_outside(std::span<const Item> items) {
  std::vector<const Item*> order;
  for (std::size_t i = items.size(); i-- > 0;) order.push_back(&items[i]);
  std::stable_sort(order.begin(), order.end(), [](const Item* a, const Item* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
  });
  return order;
}

class Writer {
 public:
  explicit Writer(const ProcessTrace& process) : process_(process) {}

  std::string write() {
    add_spans();
    add_activities();
    add_memory();
    name_rows();
    return fmt::format("{}", fmt::join(events_, ",\n"));
  }

 private:
  /// Where an event begins: its row and its time, "tid" and "ts" of the format.
  struct EventStart {
    int row;
    double microseconds;
  };

  double microseconds(SpanClock::time_point time) const {
    return std::chrono::duration<double, std::micro>(time - process_.zero).count();
  }

  void add(const char* phase, const std::string& name, const char* category, const EventStart& start,
           Json more) {
    Json event = {{"name", name},           {"cat", category},  {"ph", phase},
                  {"pid", process_.number}, {"tid", start.row}, {"ts", start.microseconds}};
    for (const auto& [member, value] : more.as_object()) event[member] = value;
    events_.push_back(event.dump(-1, Json::InvalidUtf8::replace));
  }

  /// A complete event: begin and duration.
  template <typename Item>
  EventStart add_complete(const Item& item, const char* category, const std::string& row_name) {
    const EventStart start = {rows_.row_for(row_name, item.begin, item.end), microseconds(item.begin)};
    Json more = {{"dur", microseconds(item.end) - start.microseconds}};
    if (Json arguments = arguments_of(item); !arguments.is_null()) more["args"] = std::move(arguments);
    add("X", item.name, category, start, std::move(more));
    return start;
  }

  /// "compute", and for the second thread "compute, thread 2"; "communication, data".
  std::string row_name(const Span& span) {
    if (span.track == Track::communication) {
      return fmt::format("{}{}{}", name_of(span.track), span.group.empty() ? "" : ", ", span.group);
    }
    const std::size_t thread = threads_.try_emplace(span.thread, threads_.size() + 1).first->second;
    return thread == 1 ? name_of(span.track) : fmt::format("{}, thread {}", name_of(span.track), thread);
  }

  static std::string row_name(const DeviceActivity& activity) {
    return fmt::format("{}stream {}", is_communication(activity) ? "communication, " : "", activity.stream);
  }

  /// The spans of the training thread come first, and so do its rows.
  void add_spans() {
    std::vector<const Span*> order = from_the_outside(process_.spans);
    const auto step = std::find_if(order.begin(), order.end(),
                                   [](const Span* span) { return span->kind == SpanKind::step; });
    if (step != order.end()) {
      std::stable_partition(order.begin(), order.end(), [thread = (*step)->thread](const Span* span) {
        return span->thread == thread && span->track != Track::communication;
      });
    }
    for (const Span* span : order) {
      const EventStart start = add_complete(*span, name_of(span->track), row_name(*span));
      if (span->id != 0) starts_[span->id] = start;
    }
  }

  void add_activities() {
    int arrows = 0;
    for (const DeviceActivity* activity : from_the_outside(process_.activities)) {
      const EventStart start = add_complete(*activity, name_of(activity->work), row_name(*activity));
      const auto from = starts_.find(activity->span);
      if (from == starts_.end()) continue;
      // An arrow's number must be unique over all processes.
      const Json id = fmt::format("{}.{}", process_.number, ++arrows);
      add("s", "queued", "queue", from->second, {{"id", id}});
      add("f", "queued", "queue", start, {{"id", id}, {"bp", "e"}});
    }
  }

  void add_memory() {
    if (process_.memory == nullptr) return;
    const MemoryRecording& memory = *process_.memory;
    BytesByCategory live = memory.start();
    add_level(std::max(microseconds(memory.begin()), 0.0), live);
    for (const MemoryEvent& event : memory.events()) {
      live[event.category] += static_cast<std::size_t>(event.bytes);  // modulo 2^64: less where negative
      add_level(std::max(microseconds(event.time), 0.0), live);
    }
  }

  void add_level(double at, const BytesByCategory& live) {
    Json bytes;
    for (std::size_t i = 0; i < kMemoryCategories; ++i) {
      bytes[name_of(static_cast<MemoryCategory>(i))] = live.bytes[i];
    }
    add("C", "memory", "memory", {0, at}, {{"args", std::move(bytes)}});
  }

  /// Events with the names of the process and its rows, and the order of the rows.
  void name_rows() {
    const auto name = [this](const char* what, int row, const Json& arguments) {
      const Json event = {
          {"name", what}, {"ph", "M"}, {"pid", process_.number}, {"tid", row}, {"args", arguments}};
      events_.push_back(event.dump());
    };
    name("process_name", 0, {{"name", process_.name}});
    for (int row = 0; row < static_cast<int>(rows_.all().size()); ++row) {
      name("thread_name", row, {{"name", rows_.all()[static_cast<std::size_t>(row)].name}});
      name("thread_sort_index", row, {{"sort_index", row}});
    }
  }

  const ProcessTrace& process_;
  TraceRows rows_;
  std::map<std::thread::id, std::size_t> threads_;
  std::unordered_map<std::uint64_t, EventStart> starts_;  // of the spans that have an id
  std::vector<std::string> events_;
};

}  // namespace

std::string chrome_events(const ProcessTrace& process) {
  return Writer(process).write();
}

std::string chrome_trace(std::span<const std::string> events) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", fmt::join(events, ",\n"));
}

}  // namespace ringtape
