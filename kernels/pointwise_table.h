#pragma once

#include <string>
#include <vector>

#include "kernels/pointwise.h"

/// Access to the table of kernels/pointwise.cu, for the tape and for programs that list kernels: `lens`,
/// bench_kernels and the analysis' tests.
namespace ringtape {

bool reads(const PointwiseKernel& kernel, Operand operand);
/// The number of arrays that the kernel reads and writes.
int arrays_of(const PointwiseKernel& kernel);

/// A kernel by name: "multiply", "multiply_backward_a".
struct NamedPointwiseKernel {
  std::string name;
  std::string does;
  PointwiseKernel kernel;
};
std::vector<NamedPointwiseKernel> kernels_of(const PointwiseTable& table);

/// The table of the device.
PointwiseTable pointwise_table(Device device);
/// The row of that name. Throws Error where there is none.
const PointwiseOperation& pointwise_operation(const char* name, Device device);

}  // namespace ringtape
