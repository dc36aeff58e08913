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

/// Reads "10:12"; throws Error for anything but two whole numbers with 1 <= A <= B.
StepRange parse_step_range(const std::string& text);

/// One recording of some steps of this rank, from which profile, timeline and report are made. NVIDIA's
/// profilers are pointed at the same steps.
class RecordedSteps {
 public:
  /// The steps are those of --profile-steps; without it 20 of them from the run's second on, as the first
  /// makes what later ones find; none where nobody wants any, or where a report alone wants them of a run of
  /// one step. A resumed run has `steps_before` behind it and ends with step `last_step`. Throws Error where
  /// it has none of the steps.
  RecordedSteps(const ObservationOptions& options, Communicator& comm, std::int64_t steps_before,
                std::int64_t last_step);

  /// What can be said before the run begins: throws Error for --profile-steps where it would do nothing or
  /// beyond `last_step`, a run without a second step, and --sort by a column that the device's table does not
  /// have.
  static void check_options(const ObservationOptions& options, Device device, std::int64_t last_step);

  void begin_step(std::int64_t step);
  void end_step();
  /// Work that belongs to no step follows: waits until the device has done what the steps have queued.
  void pause();
  /// No step follows.
  void stop();

  /// False where nobody wanted a recording, and until the first of its steps. All that follows is for after
  /// stop().
  bool exist() const { return spans_.has_value(); }
  StepRange range() const { return {range_.first, step_}; }
  std::int64_t count() const { return step_ - range_.first + 1; }
  Device device() const { return comm_.device(); }
  /// When the first step began: at the same moment on all ranks.
  SpanClock::time_point begin() const { return begin_; }
  /// What the steps took together, to the end of the device's work.
  SpanClock::duration wall() const { return wall_; }
  /// What lies between steps is there too, such as a test.
  const std::vector<Span>& spans() const { return spans_->spans(); }
  /// Of the rank's device. Its times are the host's, on the same clock as those of the spans.
  const MemoryRecording& memory() const { return *memory_; }
  /// Of the rank's device where that is a GPU.
  const DeviceActivities& activities() const { return activities_; }
  /// A line that says why the activities are not there, or not all of them; empty where nothing is missing.
  std::string what_is_missing() const;

 private:
  void start();
  void wait_for_device();

  Communicator& comm_;
  bool are_wanted_;
  StepRange range_;
  std::int64_t step_ = 0;  // the last one that began
  bool is_running_ = false;
  SpanClock::time_point begin_{}, step_begin_{};
  SpanClock::duration wall_{};
  std::optional<DeviceRecording> device_recording_;
  DeviceActivities activities_;
  std::optional<MemoryRecording> memory_;
  std::optional<SpanRecording> spans_;
};

}  // namespace ringtape
