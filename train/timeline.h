#pragma once

#include <string>

#include "dist/communicator.h"
#include "train/console.h"
#include "train/recorded_steps.h"

namespace ringtape {

/// Writes the recorded steps of all ranks as one trace, and prints the fraction of their communication that
/// was hidden behind computation, a row for each rank. Every rank must call it; rank 0 writes the file.
void write_timeline(const RecordedSteps& steps, const std::string& file, Communicator& comm, Console console);

}  // namespace ringtape
