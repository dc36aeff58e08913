#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/memory.h"
#include "dist/communicator.h"
#include "trace/device_activity.h"
#include "trace/spans.h"
#include "train/options.h"

namespace ringtape {

/// Parses "10:12"; throws Error for any text other than two whole numbers with 1 <= A <= B.
StepRange parse_step_range(const std::string& text);

/// A recording of some steps of this rank, the input of profile, timeline and report. NVIDIA's profilers
/// record the same steps.
class RecordedSteps {
 public:
  /// Records the steps of --profile-steps; by default 20 from the run's second on, as the first step makes
  /// one-time allocations. Records nothing if no output needs it, or if only a report needs it and the run
  /// has a single step. `steps_before`: the steps before a resumed run, else 0; the run ends with step
  /// `last_step`. Throws Error if the run has none of the steps.
  RecordedSteps(const ObservationOptions& options, Communicator& comm, std::int64_t steps_before,
                std::int64_t last_step);

  /// Checks the options before the run. Throws Error for --profile-steps that have no effect or begin after
  /// `last_step`, for --profile or --timeline of a run of one step without --profile-steps, and for --sort by
  /// a column that the device's table does not have.
  static void check_options(const ObservationOptions& options, Device device, std::int64_t last_step);

  void begin_step(std::int64_t step);
  void end_step();
  /// Waits until the device has completed the work of the steps. Call it before work that belongs to no step.
  void pause();
  /// Ends the recording.
  void stop();

  /// False without a recording, and before its first step. Call the functions below after stop().
  bool exist() const { return spans_.has_value(); }
  StepRange range() const { return {range_.first, step_}; }
  std::int64_t count() const { return step_ - range_.first + 1; }
  Device device() const { return comm_.device(); }
  int ranks() const { return comm_.size(); }
  /// The start of the first step, which all ranks begin together.
  SpanClock::time_point begin() const { return begin_; }
  /// The total time of the steps, to the end of the device's work.
  SpanClock::duration wall() const { return wall_; }
  /// Includes work between steps, such as an evaluation.
  const std::vector<Span>& spans() const { return spans_->spans(); }
  /// The memory of this rank's device. Times are of the host's clock, as in spans().
  const MemoryRecording& memory() const { return *memory_; }
  /// The activities of this rank's device; empty on a CPU.
  const DeviceActivities& activities() const { return activities_; }
  /// A line with the reason why activities are missing; empty if none are.
  std::string what_is_missing() const;

 private:
  void start();
  void wait_for_device();

  Communicator& comm_;
  bool are_wanted_;
  StepRange range_;
  std::int64_t step_ = 0;  // the last step that began
  bool is_running_ = false;
  SpanClock::time_point begin_{}, step_begin_{};
  SpanClock::duration wall_{};
  std::optional<DeviceRecording> device_recording_;
  DeviceActivities activities_;
  std::optional<MemoryRecording> memory_;
  std::optional<SpanRecording> spans_;
};

}  // namespace ringtape
