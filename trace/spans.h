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

/// Spans: named intervals of a program's time, opened by SpanScope. Without a recording and without one of
/// NVIDIA's profilers a SpanScope costs one read of a variable.
namespace ringtape {

/// The row that a span is drawn in.
enum class Track : std::uint8_t {
  compute,        ///< work of a thread; spans may nest
  waiting,        ///< a thread waits for communication
  communication,  ///< data in flight between ranks
};

const char* name_of(Track track);

/// The kind of a span, from the outermost to the innermost.
enum class SpanKind : std::uint8_t {
  step,       ///< one update of the weights
  phase,      ///< a part of it, such as data, forward, backward, all-reduce, optimizer
  layer,      ///< a module of the model
  operation,  ///< one operation of the tape, or other work
};

/// A number attached to a span, such as {"bytes", 4096}.
struct SpanArgument {
  const char* name;
  std::int64_t value;
};

/// The least work of an operation, by formula.
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

/// Something that ran from `begin` to `end`, on a track of a timeline.
struct Span {
  Track track = Track::compute;
  std::string name;
  SpanClock::time_point begin;
  SpanClock::time_point end;
  std::vector<SpanArgument> arguments;
  SpanKind kind = SpanKind::operation;
  std::string shapes{};      ///< of an operation's inputs, such as "64x784, 256x784"
  SpanWork work{};           ///< its own, without inner spans
  std::thread::id thread{};  ///< the thread of a SpanScope
  int depth = 0;             ///< the number of enclosing SpanScopes of this thread
  std::uint64_t id = 0;      ///< unique number of a SpanScope while a DeviceRecording runs
  std::string_view layer{};  ///< path of its layer (trace/layer.h), or empty; valid until exit
  std::string_view group{};  ///< of communication: Communicator::group(), such as "data", or empty
};

/// Records the spans of all threads, from its construction to stop() or its destruction. Only one can run at
/// a time: a second one throws Error. Times are the host's: for work on a GPU, when it was queued and not
/// when it ran.
class SpanRecording {
 public:
  SpanRecording();
  ~SpanRecording();
  SpanRecording(const SpanRecording&) = delete;
  SpanRecording& operator=(const SpanRecording&) = delete;

  void stop();
  /// In the order in which they ended. Valid after stop().
  const std::vector<Span>& spans() const { return spans_; }

 private:
  friend void add_span(Span span);
  SpanClock::time_point start_ = SpanClock::now();
  std::vector<Span> spans_;
};

/// True while there is a SpanRecording that has not stopped.
bool is_recording_spans();

/// The number of listeners: a recording, and a profiler that shows spans as NVTX ranges. For
/// spans_are_wanted().
extern std::atomic<int> span_listeners;

/// True if a SpanScope has an effect.
inline bool spans_are_wanted() {
  return span_listeners.load(std::memory_order_relaxed) != 0;
}

/// Adds a span to the recording. It is dropped without a recording, or if it began before the recording.
void add_span(Span span);

/// A span from here to the end of the scope, and an NVTX range if a profiler is attached (trace/nsight.h).
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

  std::optional<Span> span_;    // empty without a listener
  SpanScope* outer_ = nullptr;  // the innermost scope of this thread when this one was opened
};

/// Adds to the work of the innermost open SpanScope of this thread.
void add_work(const SpanWork& work);

}  // namespace ringtape
