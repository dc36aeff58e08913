#pragma once

#include <CLI/CLI.hpp>

#include "data/dataset.h"
#include "optim/checkpoint.h"

namespace ringtape::apps {

/// The flags of a parsed command line that change what training ends with, and their values: what a
/// checkpoint can only be resumed with. Every flag counts unless it is known not to matter: where the run
/// computes and in what pieces (which changes the result by rounding alone), what it prints, and the files it
/// reads and writes. The length of the training is left to the caller, since not every schedule depends on
/// it.
TrainingSettings settings_of(const CLI::App& app);

/// The flags that were given, here or by a recipe, and their values, in the order in which --help lists them.
std::vector<std::pair<std::string, std::string>> given_flags(const CLI::App& app);

/// A line for this program's file and one for each flag with its value, but for those that may differ between
/// the ranks of a run: --device and --data.
std::string describe_program(const CLI::App& app);

/// The number of samples and the CRC-32 of their features and targets: what tells other data from this,
/// wherever it was read from. Reads all of it.
std::string describe_data(const Dataset& data);

}  // namespace ringtape::apps
