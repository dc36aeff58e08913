#pragma once

#include <string>
#include <utility>
#include <vector>

#include "benchmarks/kernels/case.h"

/// The sizes at which kernels are measured (bench_kernels), and at which their times on a GPU are estimated
/// (launches).
namespace ringtape::kernel_cases {

/// All kinds of sizes, in the order in which kernels are measured.
inline constexpr Measured kMeasured[] = {Measured::elements,  Measured::converted, Measured::parts_of_rows,
                                         Measured::matrix,    Measured::biases,    Measured::logits,
                                         Measured::parameters};

/// The name in the results, and the size.
using NamedSize = std::pair<std::string, Size>;

/// The sizes of a kind: larger on a GPU.
std::vector<NamedSize> sizes_of(Measured measured, bool on_gpu);

}  // namespace ringtape::kernel_cases
