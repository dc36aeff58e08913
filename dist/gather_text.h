#pragma once

#include <string>
#include <vector>

#include "dist/communicator.h"

namespace ringtape {

/// The texts of all ranks in their order, on rank 0; nothing on the others. Every rank has to call it.
std::vector<std::string> gather_text(Communicator& comm, const std::string& text);

}  // namespace ringtape
