#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/options.h"
#include "core/device.h"
#include "core/spans.h"

namespace ringtape::apps {

/// Steps of a run, counted from 1; the last one belongs to it.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Reads "10:12"; throws Error for anything but two whole numbers with 1 <= A <= B.
StepRange parse_step_range(const std::string& text);

/// What --profile and --profile-steps ask for: some steps of this rank as a table, and NVIDIA's profilers
/// pointed at them.
class Profiling {
 public:
  /// `steps_before`: those that a resumed run has behind it. Throws Error for --profile-steps on the CPU
  /// without --profile, where it would do nothing.
  Profiling(const TrainOptions& options, Device device, std::int64_t steps_before);
  ~Profiling();
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

  void begin_step(std::int64_t step);
  void end_step();
  /// Prints the table, where one is wanted. Throws Error where the run had none of the steps.
  void report();

 private:
  void stop();

  const TrainOptions& options_;
  Device device_;
  StepRange range_;
  std::int64_t step_ = 0;  // that is running
  bool is_running_ = false;
  std::optional<SpanRecording> recording_;
  SpanClock::time_point begin_{};
  SpanClock::duration wall_{};  // of the steps that have ended
};

}  // namespace ringtape::apps
