#include "profile/core_wait.h"

#include <fmt/format.h>

#include <fstream>

#include "core/error.h"

namespace ringtape {
namespace {

/// Seconds that the calling thread has waited for a core since it began: the second number, in nanoseconds.
std::optional<double> seconds_waited() {
  std::ifstream file("/proc/thread-self/schedstat");
  double ran = 0, waited = 0;
  if (!(file >> ran >> waited)) return std::nullopt;
  return waited * 1e-9;
}

}  // namespace

void CoreWait::go_on() {
  if (runs_) return;
  runs_ = true;
  began_ = Clock::now();  // outside of the measured time, here and below, so that the share is never above 1
  const std::optional<double> waited = seconds_waited();
  is_counted_ = is_counted_ && waited.has_value();
  waited_at_beginning_ = waited.value_or(0);
}

void CoreWait::pause() {
  if (!runs_) return;
  runs_ = false;
  waited_ += seconds_waited().value_or(0) - waited_at_beginning_;
  passed_ += std::chrono::duration<double>(Clock::now() - began_).count();
}

std::optional<double> CoreWait::share() const {
  CoreWait ended = *this;
  ended.pause();
  if (!ended.is_counted_ || ended.passed_ <= 0) return std::nullopt;
  return ended.waited_ / ended.passed_;
}

std::string too_busy(double share) {
  if (share <= kMostCoreWait) return "";
  return fmt::format(
      "the machine was too busy: a thread that was measured waited for a core for {:.0f}% of the time, "
      "expected at most "
      "{:.0f}%",
      share * 100, kMostCoreWait * 100);
}

void check_quiet(double share, std::string_view when) {
  const std::string remark = too_busy(share);
  check(remark.empty(), "not measured, {}: {}", when, remark);
}

}  // namespace ringtape
