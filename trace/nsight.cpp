#include "trace/nsight.h"

#ifdef RINGTAPE_WITH_CUDA
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include "core/cuda_check.h"
#include "core/stream.h"
#endif

namespace ringtape {

#ifdef RINGTAPE_WITH_CUDA

bool nvtx_is_attached() {
  // Without a profiler nvtxRangePush returns an error.
  static const bool is_attached = [] {
    const bool is_tracked = nvtxRangePushA("start") != NVTX_NO_PUSH_POP_TRACKING;
    if (is_tracked) nvtxRangePop();
    return is_tracked;
  }();
  return is_attached;
}

void nvtx_push(const std::string& name) {
  if (nvtx_is_attached()) nvtxRangePushA(name.c_str());
}

void nvtx_pop() {
  if (nvtx_is_attached()) nvtxRangePop();
}

void start_profiler(Device device) {
  if (!device.is_cuda()) return;
  Stream::current(device).synchronize();
  RINGTAPE_CUDA(cudaProfilerStart());
}

void stop_profiler(Device device) {
  if (!device.is_cuda()) return;
  Stream::current(device).synchronize();
  RINGTAPE_CUDA(cudaProfilerStop());
}

#else

bool nvtx_is_attached() {
  return false;
}
void nvtx_push(const std::string&) {}
void nvtx_pop() {}
void start_profiler(Device) {}
void stop_profiler(Device) {}

#endif

}  // namespace ringtape
