#pragma once

#include <string>

#include "apps/recorded_steps.h"
#include "dist/communicator.h"

namespace ringtape::apps {

/// Where --timeline's file cannot be written, this says so before training. An empty name is no file.
void check_timeline(const std::string& file, const Communicator& ranks);

/// What --timeline writes: the recorded steps of all ranks as one picture, and how much of their
/// communication was hidden behind computation. Every rank has to call it; rank 0 writes the file and prints
/// a row for each rank.
void write_timeline(const RecordedSteps& steps, const std::string& file, Communicator& ranks);

}  // namespace ringtape::apps
