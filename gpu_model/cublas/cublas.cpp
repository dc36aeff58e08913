#include <cublas_v2.h>

#include "gpu_model/cublas/product.h"

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
};

extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext{gpu_model::current_device()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure";
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t mode) {
  return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                            const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t) {
  if (m < 0 || n < 0 || k < 0) return CUBLAS_STATUS_INVALID_VALUE;
  // "The cuBLAS library context is tied to the CUDA context that was current at the time of cublasCreate()."
  if (handle->device != gpu_model::current_device()) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto size = [](int value) { return static_cast<std::size_t>(value); };
  const gpu_model::Product product{compute_type == CUBLAS_COMPUTE_32F_FAST_TF32 && a_type == CUDA_R_32F,
                                   transa != CUBLAS_OP_N,
                                   transb != CUBLAS_OP_N,
                                   size(m),
                                   size(n),
                                   size(k),
                                   *static_cast<const float*>(alpha),
                                   *static_cast<const float*>(beta),
                                   a,
                                   a_type,
                                   size(lda),
                                   b,
                                   b_type,
                                   size(ldb),
                                   c,
                                   c_type,
                                   size(ldc)};
  gpu_model::Operation operation =
      gpu_model::operation_of(product, "cublasGemmEx", __builtin_return_address(0));
  return gpu_model::enqueue(handle->stream, std::move(operation)) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
