#include "train/recorded_steps.h"

#include <utility>

#include "core/error.h"
#include "core/numbers.h"
#include "core/stream.h"
#include "io/parse.h"
#include "trace/nsight.h"

namespace ringtape {
namespace {

constexpr std::int64_t kSteps = 20;  // default of --profile-steps

StepRange range_of(const ObservationOptions& options, bool are_wanted, std::int64_t steps_before) {
  if (options.profile_steps) return *options.profile_steps;
  if (are_wanted) return {steps_before + 2, steps_before + 1 + kSteps};
  return {};
}

}  // namespace

StepRange parse_step_range(const std::string& text) {
  const std::vector<std::string> ends = split(text, ':');
  const std::optional<std::int64_t> first = parse_int64(ends.front()), last = parse_int64(ends.back());
  check(ends.size() == 2 && first && last && *first >= 1 && *first <= *last,
        "expected steps A:B with 1 <= A <= B, such as 10:12, found '{}'", text);
  return {*first, *last};
}

RecordedSteps::RecordedSteps(const ObservationOptions& options, Communicator& comm, std::int64_t steps_before,
                             std::int64_t last_step)
    : comm_(comm),
      are_wanted_(options.profile || !options.timeline.empty() ||
                  (!options.report.empty() && (options.profile_steps || steps_before + 2 <= last_step))),
      range_(range_of(options, are_wanted_, steps_before)) {
  const bool are_chosen = options.profile_steps.has_value();
  check(!are_chosen || (range_.last > steps_before && range_.first <= last_step),
        "--profile-steps {}:{}: the run has none of these steps", range_.first, range_.last);
  check(!are_wanted_ || are_chosen || steps_before < last_step,
        "{}: the run is at its end, step {}: no step is left to record",
        options.profile ? "--profile" : "--timeline", last_step);
  check(are_chosen || range_.first <= last_step,
        "{}: records from the second update on, but the run has {}: --profile-steps {}:{} records its last",
        options.profile ? "--profile" : "--timeline", last_step - steps_before, last_step, last_step);
}

void RecordedSteps::check_options(const ObservationOptions& options, Device device, std::int64_t last_step) {
  const std::optional<StepRange>& chosen = options.profile_steps;
  const bool are_wanted = options.profile || !options.timeline.empty() || !options.report.empty();
  check(are_wanted || !chosen || device.is_cuda(),
        "--profile-steps: on {} it is for --profile, --timeline and --report: expected one of them",
        to_string(device));
  check(!chosen || chosen->first <= last_step, "--profile-steps {}:{}: the run has {}", chosen->first,
        chosen->last, counted(last_step, "step"));
  const bool are_needed = options.profile || !options.timeline.empty();
  check(!are_needed || chosen || last_step >= 2,
        "{}: records from the second update on, but the run has 1: --profile-steps 1:1 records its last",
        options.profile ? "--profile" : "--timeline");
  check(options.sort != ProfileColumn::device || device.is_cuda(),
        "--sort device: the table of {} has no such column", to_string(device));
}

void RecordedSteps::begin_step(std::int64_t step) {
  if (step < range_.first || step > range_.last) return;
  if (step_ == 0) {
    range_.first = step;  // a resumed run may begin inside the range
    start();
  }
  step_ = step;
  step_begin_ = SpanClock::now();
}

void RecordedSteps::start() {
  is_running_ = true;
  start_profiler(device());
  if (are_wanted_ && device().is_cuda()) device_recording_.emplace(device());
  if (are_wanted_) memory_.emplace(device());
  comm_.barrier();  // so that the ranks' recordings start together
  if (are_wanted_) spans_.emplace();
  begin_ = SpanClock::now();
}

void RecordedSteps::end_step() {
  if (!is_running_) return;
  wall_ += SpanClock::now() - step_begin_;
  if (step_ == range_.last) stop();
}

void RecordedSteps::pause() {
  if (is_running_) wait_for_device();
}

void RecordedSteps::stop() {
  if (!is_running_) return;
  wait_for_device();
  is_running_ = false;
  if (spans_) spans_->stop();
  if (memory_) memory_->stop();
  if (device_recording_) {
    device_recording_->stop();
    activities_ = device_recording_->activities();
  }
  stop_profiler(device());
}

std::string RecordedSteps::what_is_missing() const {
  if (activities_.missing.empty()) return "";
  return activities_.all.empty()
             ? fmt::format(
                   "device times: not available, {}; times are of the host, which queues the work of {}\n",
                   activities_.missing, to_string(device()))
             : fmt::format("device times: not complete, {}\n", activities_.missing);
}

/// Counts the time of the device's remaining work, which belongs to the steps that queued it.
void RecordedSteps::wait_for_device() {
  const SpanClock::time_point begin = SpanClock::now();
  Stream::current(device()).synchronize();
  wall_ += SpanClock::now() - begin;
}

}  // namespace ringtape
