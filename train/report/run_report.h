#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tape_graph.h"
#include "profile/memory_levels.h"
#include "profile/profile.h"
#include "train/report/step_timeline.h"
#include "train/run_log.h"

/// What --report shows of a training run.
namespace ringtape::report {

/// Names and values, in the order to be shown.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// One step, from 0 to `seconds`.
struct StepTimeline {
  std::int64_t step = 0;
  double seconds = 0;
  std::vector<std::vector<LaneSpan>> ranks;
};

/// The memory of one step.
struct StepMemory {
  std::int64_t step = 0;
  double seconds = 0;
  std::vector<MemoryLevel> levels;  ///< from 0 seconds on, without the data set
  BytesByCategory formula;          ///< nn/memory_estimate.h
  std::size_t data_set = 0;         ///< bytes of it on the device
};

/// All of it. What is empty has no section.
struct RunReport {
  std::string title;     ///< "MNIST"
  std::string subtitle;  ///< model, batch, optimizer
  std::string error;     ///< that ended the run before its time
  std::string missing;   ///< what the recording of the steps lacks, as a sentence
  int world_size = 1;
  Facts results;   ///< the few figures that matter
  Facts settings;  ///< the flags that were given
  Facts machine;
  RunCurves curves;
  std::optional<Profile> profile;
  std::map<std::string, std::string> phases;           ///< of operations by name, for the roofline
  std::int64_t first_profiled = 0, last_profiled = 0;  ///< steps
  std::optional<StepTimeline> timeline;
  std::optional<StepMemory> memory;
  std::optional<TapeGraph> tape;
};

}  // namespace ringtape::report
