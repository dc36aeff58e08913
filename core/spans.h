#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

/// Spans: what a program did from when to when. Code marks them everywhere (SpanScope); while nobody records,
/// a mark costs one read of a variable.
namespace ringtape {

/// The row that a span is drawn in.
enum class Track : std::uint8_t {
  compute,        ///< what the main thread works on; spans may nest
  waiting,        ///< the main thread waits for communication
  communication,  ///< data on its way between ranks
};

const char* name_of(Track track);

/// A number that a span carries, such as {"bytes", 4096}.
struct SpanArgument {
  const char* name;
  std::int64_t value;
};

using SpanClock = std::chrono::steady_clock;

struct Span {
  Track track = Track::compute;
  std::string name;
  SpanClock::time_point begin;
  SpanClock::time_point end;
  std::vector<SpanArgument> arguments;
};

/// Records the spans of all threads, from its construction to stop() or its end. There can be one at a time:
/// Error for a second. The times are those of the host, which on a GPU tell when work was queued and not when
/// it ran.
class SpanRecording {
 public:
  SpanRecording();
  ~SpanRecording();
  SpanRecording(const SpanRecording&) = delete;
  SpanRecording& operator=(const SpanRecording&) = delete;

  void stop();
  /// In the order in which they ended. To be read after stop().
  const std::vector<Span>& spans() const { return spans_; }

 private:
  friend void add_span(Span span);
  SpanClock::time_point start_ = SpanClock::now();
  std::vector<Span> spans_;
};

/// True while there is a SpanRecording that has not stopped.
bool is_recording_spans();

/// Adds a span to the recording; dropped where there is none, or where it began before the recording.
void add_span(Span span);

/// A span from here to the end of the scope.
class SpanScope {
 public:
  SpanScope(Track track, const char* name, std::initializer_list<SpanArgument> arguments = {});
  ~SpanScope();
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  bool is_recorded_;
  Span span_;
};

}  // namespace ringtape
