#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/kernels/case.h"
#include "kernels/analysis/analysis.h"

/// The kernels of the table under the analysis (docs/analysis.md): for programs that link
/// ringtape_analysed_kernels.
namespace ringtape::kernel_cases {

/// The cases for the analysis.
const std::vector<Case>& analysed_cases();
/// The case of that name, or null.
const Case* find_case(const std::string& name);

/// The size of n elements, or of n in the case's unit.
Size size_of_case(const Case& kernel, std::int64_t n);

/// Runs a case under the analysis: a report for each launch. Throws Error for a size that the case does not
/// support.
std::vector<analysis::KernelReport> analyse(const Case& kernel, std::int64_t n);
/// The same for a size of any dtype.
std::vector<analysis::KernelReport> analyse_size(const Case& kernel, const Size& size);

}  // namespace ringtape::kernel_cases
