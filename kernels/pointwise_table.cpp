#include "kernels/pointwise_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/error.h"

namespace ringtape {

bool reads(const PointwiseKernel& kernel, Operand operand) {
  return std::count(kernel.reads, kernel.reads + kernel.operands, operand) > 0;
}

int arrays_of(const PointwiseKernel& kernel) {
  return kernel.operands - (reads(kernel, Operand::alpha) ? 1 : 0) + 1;
}

std::vector<NamedPointwiseKernel> kernels_of(const PointwiseTable& table) {
  std::vector<NamedPointwiseKernel> kernels;
  for (const PointwiseOperation& row : std::span(table.rows, table.size)) {
    kernels.push_back({row.name, row.does, row.forward});
    for (const auto& [input, kernel] : {std::pair("a", row.backward[0]), std::pair("b", row.backward[1])}) {
      if (kernel.launch == nullptr) continue;
      kernels.push_back({fmt::format("{}_backward_{}", row.name, input),
                         fmt::format("the gradient of {} in {}", input, row.does), kernel});
    }
  }
  return kernels;
}

PointwiseTable pointwise_table([[maybe_unused]] Device device) {
#if defined(RINGTAPE_WITH_CUDA)
  if (device.is_cuda()) return on_cuda::pointwise_table();
#endif
  return on_cpu::pointwise_table();
}

const PointwiseOperation& pointwise_operation(const char* name, Device device) {
  const PointwiseTable table = pointwise_table(device);
  for (const PointwiseOperation& row : std::span(table.rows, table.size)) {
    if (std::strcmp(row.name, name) == 0) return row;
  }
  fail("kernels/pointwise.cu has no operation '{}' on {}", name, to_string(device));
}

}  // namespace ringtape
