#pragma once

#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// Compares a text of several lines with the texts of the other ranks. Throws Error, on every rank, that
/// names the first line in which a rank differs from rank 0: "`what` differ: parameter 3 is ... on rank 0,
/// but ... on rank 1" if `line` is "parameter"; an empty `line` leaves out the line's number, which counts
/// from 0. All ranks must call it.
void verify_same(Communicator& comm, const std::string& what, const std::string& line,
                 const std::string& text);

}  // namespace ringtape
