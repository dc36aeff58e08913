#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

/// Whether a machine was quiet enough for a measurement, from the scheduler's count of the time that a thread
/// was runnable and waited for a core.
namespace ringtape {

/// The largest share of its time that a measured thread may wait for a core.
inline constexpr double kMostCoreWait = 0.05;

/// The time that one thread has waited for a core since construction, without pauses.
class CoreWait {
 public:
  /// Measures the calling thread. All other members must be called by the same thread.
  CoreWait() { go_on(); }
  void pause();
  void go_on();
  /// Time waited over time measured, both without pauses; empty where the system does not count it. (Linux
  /// does: /proc/thread-self/schedstat.)
  std::optional<double> share() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool runs_ = false, is_counted_ = true;
  Clock::time_point began_;
  double waited_at_beginning_ = 0;  // seconds
  double waited_ = 0, passed_ = 0;  // up to the last pause
};

/// A warning for this share of waiting, "the machine was too busy: ..."; empty up to kMostCoreWait.
std::string too_busy(double share);
/// Throws Error above kMostCoreWait: "not measured, WHEN: the machine was too busy: ...".
void check_quiet(double share, std::string_view when);

}  // namespace ringtape
