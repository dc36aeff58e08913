#pragma once

#include <string>

#include "dist/communicator.h"
#include "train/console.h"
#include "train/recorded_steps.h"

namespace ringtape {

/// Writes the recorded steps of all ranks as one Perfetto trace, and prints, in a row for each rank, the
/// times of an update and the fraction of communication that was hidden behind computation. Every rank must
/// call it; rank 0 writes and prints. Throws Error if the file cannot be written.
void write_timeline(const RecordedSteps& steps, const std::string& file, Communicator& comm, Console console);

}  // namespace ringtape
