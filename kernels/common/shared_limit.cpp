#include "kernels/common/shared_limit.h"

#if defined(RINGTAPE_WITH_CUDA)
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

#include "kernels/common/launch_errors.h"

namespace ringtape {

void allow_shared_memory(const void* kernel, Device device, std::size_t bytes) {
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  static std::mutex mutex;
  static auto* const limits = new std::map<std::pair<const void*, int>, std::size_t>;
  const std::lock_guard lock(mutex);
  std::size_t& limit = (*limits)[{kernel, device.index}];
  if (bytes <= limit) return;  // a lower limit could refuse another thread's launch
  cudaFuncAttributes attributes;
  check_launch(cudaFuncGetAttributes(&attributes, kernel), kernel);
  if (attributes.sharedSizeBytes + bytes > kWithoutAsking) {
    check_launch(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        kernel);
  }
  limit = bytes;
}

}  // namespace ringtape
#endif
