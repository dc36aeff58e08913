#pragma once

#include <string>
#include <vector>

#include "dist/communicator.h"

namespace ringtape {

/// The texts of all ranks in rank order on rank 0; an empty list on the others. Every rank must call it.
std::vector<std::string> gather_text(Communicator& comm, const std::string& text);

}  // namespace ringtape
