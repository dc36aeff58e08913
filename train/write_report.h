#pragma once

#include <optional>
#include <string>

#include "dist/communicator.h"
#include "train/console.h"
#include "train/recorded_steps.h"
#include "train/report/run_report.h"

namespace ringtape::report {

/// The data of a finished run for --report.
struct FinishedRun {
  /// All but machine, timeline, memory, and what describes the recorded steps.
  RunReport report;
  const RecordedSteps& recorded;
  BytesByCategory memory_formula;
  BytesByCategory data_set;  ///< on the device since before the run
};

/// Completes the report with the machine and one of the recorded steps: its memory, and the timelines of all
/// ranks. Rank 0 writes `file`, an HTML page or, if the name ends with .json, the JSON document, and prints
/// the name. Every rank must call it. Throws Error if the file cannot be written.
void write_report(FinishedRun run, const std::string& file, Communicator& comm, Console console);

/// Adds the machine of `device`, writes the report to `file`, and prints the name.
void save_report(RunReport report, const std::string& file, Device device, Console console);

}  // namespace ringtape::report
