#pragma once

#include <chrono>
#include <optional>
#include <string>

/// Whether a machine was quiet enough to measure on it, from what its scheduler counts: the time in which a
/// thread wanted a core and had to wait, since other programs had them.
namespace ringtape::benchmarks {

/// The share of its time that a thread may wait for a core while it is measured: more spoils the figures.
inline constexpr double kMostCoreWait = 0.05;

/// What one thread has waited, from construction on, but for pauses.
class CoreWait {
 public:
  /// Of the thread that calls it, which has to call all else too.
  CoreWait() { go_on(); }
  void pause();
  void go_on();
  /// Waiting over all time that was measured, both without pauses; empty where the system does not count it.
  /// (Linux does: /proc/thread-self/schedstat.)
  std::optional<double> share() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool runs_ = false, is_counted_ = true;
  Clock::time_point began_;
  double waited_at_beginning_ = 0;  // seconds
  double waited_ = 0, passed_ = 0;  // up to the last pause
};

/// What is wrong where a thread has waited so large a share of its time: "the machine was too busy: ...".
/// Empty up to kMostCoreWait.
std::string too_busy(double share);

}  // namespace ringtape::benchmarks
