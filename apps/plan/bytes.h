#pragma once

#include <cstdint>
#include <string>

#include "train/option_value.h"

namespace ringtape::planner {

/// The units that are read, and those of bytes_text(), for --help.
inline constexpr const char* kUnitsHelp =
    "a whole number of B, kB, MB, GB or TB (powers of 1000) or of KiB, MiB, GiB or TiB (powers of 1024), "
    "which results are printed in";

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
