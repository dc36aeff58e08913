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
  /// Holds title, subtitle, results, curves, profile and tape.
  RunReport report;
  const RecordedSteps& recorded;
  BytesByCategory memory_formula;
  BytesByCategory data_set;  ///< on the device since before the run
};

/// Adds the machine and one of the recorded steps: its memory, and the timelines of all ranks. Rank 0 writes
/// it to `file`: a page, or if the name ends with .json the JSON document, and says so on the console. Every
/// rank must call it.
void write_report(FinishedRun run, const std::string& file, Communicator& comm, Console console);

/// Adds the machine of `device`, writes the report to `file`, and says so on the console.
void save_report(RunReport report, const std::string& file, Device device, Console console);

}  // namespace ringtape::report
