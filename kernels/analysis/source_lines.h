#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/analysis/analysis.h"

namespace ringtape::analysis {

/// The source location of an instruction, from the debug information.
struct CodeLocation {
  std::string function;  ///< the kernel's or function's name, without its namespace and parameters
  /// In the innermost inlined function of a `.cu` file: the kernel's own line, not a line of load_vec().
  /// Without such a function, the innermost line in the outermost function's file.
  SourceLine line;
  /// The code is in kernels/simt: the CPU's model of an instruction, such as a shuffle.
  bool of_executor = false;
};

/// Looks up `addresses` of this program's code with binutils' `addr2line`. Locations are "?" where addr2line
/// is missing (with one warning on standard error) or has no information.
std::vector<CodeLocation> locations_of(const std::vector<std::uintptr_t>& addresses);

/// The range of addresses at which this program (without its shared libraries) lies in memory.
struct ProgramImage {
  std::uintptr_t begin = 0, end = 0;
};
ProgramImage program_image();

}  // namespace ringtape::analysis
