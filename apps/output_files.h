#pragma once

#include <optional>
#include <string>

#include "apps/options.h"
#include "autograd/tape_graph.h"

namespace ringtape::apps {

/// Throws Error where a file that the run writes is named by another flag too, also as something to read
/// (only --save may name what --load does), and where a file that it is to leave at its end cannot be
/// written: so that this is known before training. Names are the same where they lead to one place, by links
/// too. `writes`: this rank writes them.
void check_output_files(const TrainOptions& options, bool writes);

/// Writes --save-tape. Throws Error where the run recorded no tape.
void save_tape(const std::optional<TapeGraph>& tape, const std::string& file);

}  // namespace ringtape::apps
