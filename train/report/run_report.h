#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/tape_graph.h"
#include "profile/memory_levels.h"
#include "profile/profile.h"
#include "train/report/html.h"
#include "train/report/step_timeline.h"
#include "train/run_log.h"

/// A training run as one HTML page: what --report writes.
namespace ringtape::report {

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

/// All that a page shows. What is empty has no section.
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

/// The page.
std::string html_report(const RunReport& report);

/// Its sections. Each is empty where the report has nothing for it.
std::string curves_section(const RunReport& report);
std::string profile_section(const RunReport& report);
std::string roofline_section(const RunReport& report);
std::string memory_section(const RunReport& report);
std::string timeline_section(const RunReport& report);
std::string tape_section(const RunReport& report);

}  // namespace ringtape::report
