#pragma once

#include <cuda_runtime_api.h>

#include "core/cuda_check.h"
#include "core/stream.h"

namespace ringtape {

inline cudaStream_t native(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}

/// A point in a stream. Unlike Event, it can be queried without waiting, and has no time stamp, which makes
/// it cheaper to record.
class NcclEvent {
 public:
  NcclEvent() { RINGTAPE_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~NcclEvent() { cudaEventDestroy(event_); }
  NcclEvent(const NcclEvent&) = delete;
  NcclEvent& operator=(const NcclEvent&) = delete;

  void record(const Stream& stream) { RINGTAPE_CUDA(cudaEventRecord(event_, native(stream))); }
  void wait_on(const Stream& stream) const { RINGTAPE_CUDA(cudaStreamWaitEvent(native(stream), event_, 0)); }
  bool is_done() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // cudaErrorNotReady may stay, and the next launch's check would report it
      return false;
    }
    check_cuda(state, "cudaEventQuery");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace ringtape
