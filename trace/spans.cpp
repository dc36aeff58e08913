#include "trace/spans.h"

#include <mutex>
#include <utility>

#include "core/error.h"
#include "trace/device_activity.h"
#include "trace/layer.h"
#include "trace/nsight.h"

namespace ringtape {
namespace {

std::mutex mutex;
std::atomic<SpanRecording*> current = nullptr;  // changed under the mutex
thread_local SpanScope* innermost = nullptr;
std::atomic<std::uint64_t> last_id = 0;

}  // namespace

std::atomic<int> span_listeners = nvtx_is_attached() ? 1 : 0;

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
  ++span_listeners;
}

SpanRecording::~SpanRecording() {
  stop();
}

void SpanRecording::stop() {
  const std::lock_guard lock(mutex);
  if (current != this) return;
  current = nullptr;
  --span_listeners;
}

bool is_recording_spans() {
  return current.load(std::memory_order_relaxed) != nullptr;
}

void add_span(Span span) {
  const std::lock_guard lock(mutex);
  SpanRecording* const recording = current;
  if (recording != nullptr && span.begin >= recording->start_) recording->spans_.push_back(std::move(span));
}

SpanScope::SpanScope(Track track, const char* name, std::initializer_list<SpanArgument> arguments) {
  if (spans_are_wanted()) {
    begin({.track = track, .name = name, .begin = {}, .end = {}, .arguments = arguments});
  }
}

SpanScope::SpanScope(SpanKind kind, std::string name, std::string shapes) {
  if (!spans_are_wanted()) return;
  Span span;
  span.name = std::move(name);
  span.kind = kind;
  span.shapes = std::move(shapes);
  begin(std::move(span));
}

void SpanScope::begin(Span span) {
  outer_ = std::exchange(innermost, this);
  span_ = std::move(span);
  span_->thread = std::this_thread::get_id();
  span_->depth = outer_ == nullptr ? 0 : outer_->span_->depth + 1;
  if (const Layer* const layer = current_layer()) span_->layer = layer->path;
  nvtx_push(span_->shapes.empty() ? span_->name : span_->name + " " + span_->shapes);
  if (is_recording_device()) enter_device_span(span_->id = ++last_id);
  span_->begin = SpanClock::now();
}

void SpanScope::end() {
  span_->end = SpanClock::now();
  if (span_->id != 0) leave_device_span();
  nvtx_pop();
  innermost = outer_;
  add_span(std::move(*span_));
}

void add_work(const SpanWork& work) {
  if (!spans_are_wanted() || innermost == nullptr) return;
  innermost->span_->work += work;
}

}  // namespace ringtape
