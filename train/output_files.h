#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tape_graph.h"
#include "train/console.h"
#include "train/options.h"

namespace ringtape {

/// Throws Error before training if an output file of the run is also named by another option, including
/// inputs (only `save` may name the file of `load`), or is one of `input_files`; and if a file that is
/// written at the end of the run cannot be written. Names are the same if they refer to one file, through
/// links too. `writes`: this rank writes the files.
void check_output_files(const TrainerOptions& options, const std::vector<std::string>& input_files,
                        bool writes);

/// Writes the picture of a tape. Throws Error if the run recorded no tape.
void save_tape(const std::optional<TapeGraph>& tape, const std::string& file, Console console);

}  // namespace ringtape
