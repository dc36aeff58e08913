#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/analysis/analysis.h"

namespace ringtape::analysis {

/// What the program's debug information says of an instruction.
struct CodeLocation {
  std::string function;  ///< the kernel's or function's name, without its namespace and parameters
  /// Of the functions inlined here, innermost first, the first that stands in a `.cu` file: the kernel's own
  /// line and not that of load_vec(). The innermost where there is none.
  SourceLine line;
  /// The code stands in kernels/simt: it is the CPU's model of an instruction, as a shuffle is.
  bool of_executor = false;
};

/// Looks `addresses` of this program's code up with binutils' `addr2line`. Places are "?" where it is
/// missing, which is said once on standard error, or knows nothing.
std::vector<CodeLocation> locations_of(const std::vector<std::uintptr_t>& addresses);

/// The range of addresses at which this program (without its shared libraries) lies in memory.
struct ProgramImage {
  std::uintptr_t begin = 0, end = 0;
};
ProgramImage program_image();

}  // namespace ringtape::analysis
