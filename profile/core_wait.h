#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

/// Whether a machine was quiet enough for a measurement: from the time for which each thread of the process
/// was runnable but waited for a core, as the scheduler counts it.
namespace ringtape {

/// The largest share of its time that a thread of a measured process may wait for a core.
inline constexpr double kMaxCoreWait = 0.05;

/// The time that each of the process's threads has waited for a core since construction, without pauses.
class CoreWait {
 public:
  CoreWait() { go_on(); }
  void pause();
  void go_on();
  /// The longest time that one thread waited, divided by the time measured, both without pauses; nullopt if
  /// the system does not count it. (Most Linux systems do: /proc/self/task/*/schedstat.) What a thread waited
  /// is lost if it ends before the next pause() or share().
  std::optional<double> share() const;

 private:
  using Clock = std::chrono::steady_clock;
  using SecondsOfThreads = std::map<std::string, double>;  // by the thread's number
  static std::optional<SecondsOfThreads> seconds_waited();

  bool runs_ = false, is_counted_ = true;
  Clock::time_point began_;
  SecondsOfThreads at_beginning_;
  SecondsOfThreads waited_;  // up to the last pause
  double passed_ = 0;        // up to the last pause
};

/// A warning if the share is above kMaxCoreWait, "the machine was too busy: ...", or if it is nullopt, not
/// known; otherwise "".
std::string too_busy(std::optional<double> share);
/// Throws Error above kMaxCoreWait: "not measured, WHEN: the machine was too busy: ...". Prints a note on
/// standard error where the share is not known.
void check_quiet(std::optional<double> share, std::string_view when);

}  // namespace ringtape
