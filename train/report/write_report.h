#pragma once

#include <optional>
#include <string>

#include "dist/communicator.h"
#include "train/recorded_steps.h"
#include "train/report/run_report.h"

namespace ringtape::report {

/// What --report needs of a run that has ended.
struct FinishedRun {
  /// Title, subtitle, results, curves, profile and tape are in here already.
  RunReport report;
  const RecordedSteps& recorded;
  BytesByCategory memory_formula;
  BytesByCategory data_set;  ///< on the device since before the run
};

/// Adds the machine and one of the recorded steps: its memory, and the timelines of all ranks. Rank 0 writes
/// it to `file`: a page, or where the name ends on .json its document. Every rank has to call it.
void write_report(FinishedRun run, const std::string& file, Communicator& comm);

/// Adds the machine that `device` belongs to, and writes the report to `file`.
void save_report(RunReport report, const std::string& file, Device device);

}  // namespace ringtape::report
