#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tape_graph.h"
#include "train/console.h"
#include "train/options.h"

namespace ringtape {

/// Call it before training. Throws Error if two options name the same file and at least one of them writes it
/// (only `save` and `load` may), if an output is one of `input_files`, and, with `writes`, if a file that the
/// run writes at its end cannot be written. Names are the same if they refer to one file, also through links.
/// `writes`: this rank writes the files.
void check_output_files(const TrainerOptions& options, const std::vector<std::string>& input_files,
                        bool writes);

/// Writes the drawing of a tape, as SVG or, for other file extensions, in Graphviz's DOT format. Throws Error
/// if the run recorded no tape.
void save_tape(const std::optional<TapeGraph>& tape, const std::string& file, Console console);

}  // namespace ringtape
