#include "kernels/pointwise.h"

#include <cstring>

#include "core/error.h"

namespace ringtape {

const PointwiseOperation& pointwise_operation(const char* name, Device device) {
#if defined(RINGTAPE_WITH_CUDA)
  const PointwiseTable table = device.is_cuda() ? on_cuda::pointwise_table() : on_cpu::pointwise_table();
#else
  const PointwiseTable table = on_cpu::pointwise_table();
#endif
  for (std::size_t row = 0; row < table.size; ++row) {
    if (std::strcmp(table.rows[row].name, name) == 0) return table.rows[row];
  }
  fail("kernels/pointwise.cu has no operation '{}' on {}", name, to_string(device));
}

}  // namespace ringtape
