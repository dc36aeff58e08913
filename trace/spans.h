#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

/// Spans: what a program did from when to when. Code marks them everywhere (SpanScope); while nobody records
/// and no profiler of NVIDIA is attached, a mark costs one read of a variable.
namespace ringtape {

/// The row that a span is drawn in.
enum class Track : std::uint8_t {
  compute,        ///< what the main thread works on; spans may nest
  waiting,        ///< the main thread waits for communication
  communication,  ///< data on its way between ranks
};

const char* name_of(Track track);

/// What a span is of, from the outside to the inside.
enum class SpanKind : std::uint8_t {
  step,       ///< one update of the weights
  phase,      ///< a part of it: data, forward, backward, all-reduce, optimizer
  layer,      ///< a module of the model
  operation,  ///< one operation of the tape, or other work
};

/// A number that a span carries, such as {"bytes", 4096}.
struct SpanArgument {
  const char* name;
  std::int64_t value;
};

/// What an operation has to do at least, by formula.
struct SpanWork {
  std::int64_t flops = 0;  ///< additions and multiplications
  std::int64_t bytes = 0;  ///< every operand read once and every result written once

  SpanWork& operator+=(const SpanWork& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

using SpanClock = std::chrono::steady_clock;

struct Span {
  Track track = Track::compute;
  std::string name;
  SpanClock::time_point begin;
  SpanClock::time_point end;
  std::vector<SpanArgument> arguments;
  SpanKind kind = SpanKind::operation;
  std::string shapes{};      ///< of an operation's inputs, such as "64x784, 256x784"
  SpanWork work{};           ///< its own, without that of the spans inside
  std::thread::id thread{};  ///< that it ran in; of a SpanScope
  int depth = 0;             ///< SpanScopes of this thread around it
  std::uint64_t id = 0;      ///< of a SpanScope while a DeviceRecording runs: no other has it
  std::string_view layer{};  ///< path of the layer it belongs to (trace/layer.h), or empty; lives on
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

/// Who wants to hear of spans: a recording, and a profiler that shows them as NVTX ranges. For
/// spans_are_wanted().
extern std::atomic<int> span_listeners;

/// True where a SpanScope does anything.
inline bool spans_are_wanted() {
  return span_listeners.load(std::memory_order_relaxed) != 0;
}

/// Adds a span to the recording; dropped where there is none, or where it began before the recording.
void add_span(Span span);

/// A span from here to the end of the scope, and an NVTX range where a profiler is attached (trace/nsight.h).
class SpanScope {
 public:
  SpanScope(Track track, const char* name, std::initializer_list<SpanArgument> arguments = {});
  /// On the compute track. The NVTX range has name and shapes.
  SpanScope(SpanKind kind, const char* name) {
    if (spans_are_wanted()) begin({.name = name, .begin = {}, .end = {}, .arguments = {}, .kind = kind});
  }
  SpanScope(SpanKind kind, std::string name, std::string shapes);
  ~SpanScope() {
    if (span_) end();
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  friend void add_work(const SpanWork& work);
  void begin(Span span);
  void end();

  std::optional<Span> span_;    // none: nobody wants to hear of it
  SpanScope* outer_ = nullptr;  // the innermost scope of this thread when this one was opened
};

/// Adds to the work of the innermost open SpanScope of this thread.
void add_work(const SpanWork& work);

}  // namespace ringtape
