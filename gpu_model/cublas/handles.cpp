#include "gpu_model/cublas/handles.h"

#include "gpu_model/runtime/capture.h"
#include "gpu_model/runtime/state.h"

namespace gpu_model {

cublasStatus_t open_context(int device) {
  const Lock lock(state().mutex);
  if (static_cast<std::size_t>(device) >= state().devices.size()) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (open_device(device).sticky != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  return forbid_in_captures() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

}  // namespace gpu_model
