#pragma once

#include <optional>
#include <string>

#include "apps/options.h"
#include "autograd/tape_graph.h"

namespace ringtape::apps {

/// Throws Error where two flags name one file, and where a file that a run is to leave at its end cannot be
/// written, so that this is known before training. `writes`: this rank writes them.
void check_output_files(const TrainOptions& options, bool writes);

/// Writes --save-tape. Throws Error where the run recorded no tape.
void save_tape(const std::optional<TapeGraph>& tape, const std::string& file);

}  // namespace ringtape::apps
