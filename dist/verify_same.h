#pragma once

#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// Compares a text of several lines with the texts of the other ranks. Throws Error, on every rank, that
/// names the first line in which a rank differs from rank 0: "`what` differ: parameter 3 is ... on rank 0,
/// but ... on rank 1", where `line` is "parameter". All ranks must call it.
void verify_same(Communicator& comm, const std::string& what, const std::string& line,
                 const std::string& text);

}  // namespace ringtape
