#include "profile/core_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/error.h"

namespace ringtape {

/// A thread's file begins with the nanoseconds that it has run and that it has waited for a core. A system
/// that does not count them has zeros, although the thread that reads them has run.
std::optional<CoreWait::SecondsOfThreads> CoreWait::seconds_waited() {
  SecondsOfThreads all;
  double ran_by_all = 0;
  std::error_code failed;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::ifstream file(thread.path() / "schedstat");
    double ran = 0, waited = 0;
    if (!(file >> ran >> waited)) continue;  // the thread has ended since
    ran_by_all += ran;
    all.emplace(thread.path().filename(), waited * 1e-9);
  }
  if (ran_by_all <= 0) return std::nullopt;
  return all;
}

void CoreWait::go_on() {
  if (runs_) return;
  runs_ = true;
  began_ = Clock::now();  // outside of the measured time, here and below, so that the share is never above 1
  const std::optional<SecondsOfThreads> waited = seconds_waited();
  is_counted_ = is_counted_ && waited.has_value();
  at_beginning_ = waited.value_or(SecondsOfThreads{});
}

void CoreWait::pause() {
  if (!runs_) return;
  runs_ = false;
  for (const auto& [thread, seconds] : seconds_waited().value_or(SecondsOfThreads{})) {
    waited_[thread] += seconds - at_beginning_[thread];  // 0 for a thread that has begun since
  }
  passed_ += std::chrono::duration<double>(Clock::now() - began_).count();
}

std::optional<double> CoreWait::share() const {
  CoreWait ended = *this;
  ended.pause();
  if (!ended.is_counted_ || ended.passed_ <= 0) return std::nullopt;
  double longest = 0;
  for (const auto& [thread, seconds] : ended.waited_) longest = std::max(longest, seconds);
  return longest / ended.passed_;
}

std::string too_busy(std::optional<double> share) {
  if (!share)
    return "whether the machine was too busy is not known: the system does not count waiting for a core";
  if (*share <= kMaxCoreWait) return "";
  return fmt::format(
      "the machine was too busy: a thread that was measured waited for a core for {:.0f}% of the time, "
      "expected at most {:.0f}%",
      *share * 100, kMaxCoreWait * 100);
}

void check_quiet(std::optional<double> share, std::string_view when) {
  const std::string remark = too_busy(share);
  if (remark.empty()) return;
  check(!share, "not measured, {}: {}", when, remark);
  fmt::print(stderr, "note: {}: {}\n", when, remark);
}

}  // namespace ringtape
