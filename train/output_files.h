#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tape_graph.h"
#include "train/console.h"
#include "train/options.h"

namespace ringtape {

/// Throws Error where a file that the run writes is named by another option too, also as one to read (only
/// `save` may name the file of `load`), or is one of `input_files`; and where a file that the run leaves at
/// its end cannot be written: so that this is known before training. Names are the same where they lead to
/// one place, by links too. `writes`: this rank writes them.
void check_output_files(const TrainerOptions& options, const std::vector<std::string>& input_files,
                        bool writes);

/// Writes the picture of a tape. Throws Error where the run recorded no tape.
void save_tape(const std::optional<TapeGraph>& tape, const std::string& file, Console console);

}  // namespace ringtape
