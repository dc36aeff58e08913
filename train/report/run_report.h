#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/tape_graph.h"
#include "profile/machine.h"
#include "profile/memory_levels.h"
#include "profile/profile.h"
#include "train/report/run_curves.h"
#include "train/report/step_timeline.h"

/// The contents of --report for a training run.
namespace ringtape::report {

/// The spans of one step, by rank. Times go from 0 to `seconds`.
struct StepTimeline {
  std::int64_t step = 0;
  double seconds = 0;
  std::vector<std::vector<LaneSpan>> ranks;
};

/// The memory of one step.
struct StepMemory {
  std::int64_t step = 0;
  double seconds = 0;
  std::vector<MemoryLevel> levels;  ///< from 0 seconds on, without `data_set`
  BytesByCategory formula;          ///< nn/memory_estimate.h
  std::size_t data_set = 0;         ///< bytes that were live before the run, such as a dataset on the device
};

/// A whole report. A member that is empty or has no value gets no section.
struct RunReport {
  std::string title;     ///< "MNIST"
  std::string subtitle;  ///< model, batch, optimizer, dtype, device
  std::string error;     ///< the error that ended the run early; empty without one
  std::string missing;   ///< why parts of the recording are missing; empty if none are
  int world_size = 1;
  std::vector<Fact> results;   ///< the main results, in display order
  std::vector<Fact> settings;  ///< the task's settings, and the options that have a value
  std::vector<Fact> machine;   ///< describe_machine()
  RunCurves curves;
  std::vector<StepText> texts;
  std::optional<Profile> profile;
  std::map<std::string, std::string> phases;           ///< phase of each operation, by name, for the roofline
  std::int64_t first_profiled = 0, last_profiled = 0;  ///< steps of `profile`
  std::optional<StepTimeline> timeline;
  std::optional<StepMemory> memory;
  std::optional<TapeGraph> tape;
};

}  // namespace ringtape::report
