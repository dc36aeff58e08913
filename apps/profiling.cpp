#include "apps/profiling.h"

#include <charconv>
#include <utility>

#include "core/error.h"
#include "core/nsight.h"
#include "core/profile.h"

namespace ringtape::apps {
namespace {

constexpr std::int64_t kStepsByDefault = 20;

}  // namespace

StepRange parse_step_range(const std::string& text) {
  StepRange range;
  const char* const end = text.data() + text.size();
  const auto [colon, first_error] = std::from_chars(text.data(), end, range.first);
  const bool has_first = first_error == std::errc() && colon != end && *colon == ':';
  const char* const second = has_first ? colon + 1 : end;
  const auto [stop, last_error] = std::from_chars(second, end, range.last);
  check(
      has_first && last_error == std::errc() && stop == end && range.first >= 1 && range.first <= range.last,
      "expected steps A:B with 1 <= A <= B, such as 10:12, found '{}'", text);
  return range;
}

Profiling::Profiling(const TrainOptions& options, Device device, std::int64_t steps_before)
    : options_(options), device_(device) {
  check(options.profile || options.profile_steps.empty() || device.is_cuda(),
        "--profile-steps: on {} it says what --profile counts: add that", to_string(device));
  if (!options.profile_steps.empty()) {
    range_ = parse_step_range(options.profile_steps);
  } else if (options.profile) {
    // The first step makes what later ones find.
    range_ = {steps_before + 2, steps_before + 1 + kStepsByDefault};
  }
}

Profiling::~Profiling() {
  if (is_running_) stop_profiler(device_);
}

void Profiling::begin_step(std::int64_t step) {
  if (step < range_.first || step > range_.last) return;
  if (!std::exchange(is_running_, true)) {
    start_profiler(device_);
    if (options_.profile) recording_.emplace();
  }
  step_ = step;
  begin_ = SpanClock::now();
}

void Profiling::end_step() {
  if (!is_running_) return;
  wall_ += SpanClock::now() - begin_;
  if (step_ == range_.last) stop();
}

void Profiling::stop() {
  if (!std::exchange(is_running_, false)) return;
  if (recording_) recording_->stop();
  stop_profiler(device_);
}

void Profiling::report() {
  stop();
  if (range_.last == 0) return;
  check(step_ > 0, "--profile-steps {}:{}: the run had none of these steps", range_.first, range_.last);
  if (!options_.profile) return;
  Profile profile = make_profile(recording_->spans(), wall_);
  sort_rows(profile, options_.sort);
  fmt::print("\nprofile of steps {} to {}, figures of one step:\n", range_.first, step_);
  if (device_.is_cuda()) {
    fmt::print("(times of the host, which queues the work of {}: when it ran is not in here yet)\n",
               to_string(device_));
  }
  fmt::print("{}", profile_report(profile));
}

}  // namespace ringtape::apps
