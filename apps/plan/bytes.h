#pragma once

#include <cstdint>
#include <string>

#include "train/option_value.h"

namespace ringtape::planner {

/// A number of bytes, and its text on the command line, such as "16GB".
struct Bytes {
  std::uint64_t number = 0;
  std::string text;
};

/// A whole number with a unit.
OptionValue option_value(Bytes& bytes);

/// The number. Throws Error that names the flag if it is out of range.
std::int64_t bytes_of(const char* flag, const Bytes& given);

}  // namespace ringtape::planner
