#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/kernels/case.h"
#include "kernels/analysis/analysis.h"

/// Runs the kernels of the table under the analysis (docs/analysis.md). For programs that link
/// ringtape_analysed_kernels.
namespace ringtape::kernel_cases {

/// The cases of the analysis: those with a description.
const std::vector<Case>& analysed_cases();
/// The case with this name; null if there is none.
const Case* find_case(const std::string& name);

/// The size with n elements, or n of the case's unit. n must be a multiple of the case's columns.
Size size_of_case(const Case& kernel, std::int64_t n);

/// Runs a case under the analysis and returns a report for each launch. Throws Error for a size that the case
/// does not support.
std::vector<analysis::KernelReport> analyse(const Case& kernel, std::int64_t n);
/// The same for a size of any dtype.
std::vector<analysis::KernelReport> analyse_size(const Case& kernel, const Size& size);

}  // namespace ringtape::kernel_cases
