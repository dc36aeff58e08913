#pragma once

#include <string>
#include <utility>
#include <vector>

#include "benchmarks/kernels/case.h"

/// The sizes at which bench_kernels measures kernels, and at which benchmarks/sass estimates their times on a
/// GPU.
namespace ringtape::kernel_cases {

/// All kinds of sizes, in the order in which kernels are measured.
inline constexpr Measured kMeasured[] = {Measured::elements,  Measured::converted, Measured::parts_of_rows,
                                         Measured::matrix,    Measured::biases,    Measured::logits,
                                         Measured::parameters};

/// The name in the results, and the size.
using NamedSize = std::pair<std::string, Size>;

/// The sizes of a kind; those for a GPU are larger.
std::vector<NamedSize> sizes_of(Measured measured, bool on_gpu);

}  // namespace ringtape::kernel_cases
