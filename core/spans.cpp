#include "core/spans.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

std::mutex mutex;
std::atomic<SpanRecording*> current = nullptr;  // changed under the mutex

}  // namespace

const char* name_of(Track track) {
  switch (track) {
    case Track::compute:
      return "compute";
    case Track::waiting:
      return "waiting";
    case Track::communication:
      return "communication";
  }
  return "unknown";
}

SpanRecording::SpanRecording() {
  const std::lock_guard lock(mutex);
  check(current == nullptr, "spans: a recording is running already");
  current = this;
}

SpanRecording::~SpanRecording() {
  stop();
}

void SpanRecording::stop() {
  const std::lock_guard lock(mutex);
  if (current == this) current = nullptr;
}

bool is_recording_spans() {
  return current.load(std::memory_order_relaxed) != nullptr;
}

void add_span(Span span) {
  const std::lock_guard lock(mutex);
  SpanRecording* const recording = current;
  if (recording != nullptr && span.begin >= recording->start_) recording->spans_.push_back(std::move(span));
}

SpanScope::SpanScope(Track track, const char* name, std::initializer_list<SpanArgument> arguments)
    : is_recorded_(is_recording_spans()) {
  if (is_recorded_) span_ = {track, name, SpanClock::now(), {}, arguments};
}

SpanScope::~SpanScope() {
  if (!is_recorded_) return;
  span_.end = SpanClock::now();
  add_span(std::move(span_));
}

}  // namespace ringtape
