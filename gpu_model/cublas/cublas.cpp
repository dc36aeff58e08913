// cuBLAS, as "Using the cuBLAS API" of the cuBLAS reference (13.0) describes it.
#include <cublas_v2.h>

#include <cstdint>
#include <utility>

#include "gpu_model/cublas/checks.h"
#include "gpu_model/cublas/handles.h"
#include "gpu_model/cublas/queue.h"

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
  bool has_workspace = false;  ///< set by the user; otherwise cuBLAS takes it from its own pool
  gpu_model::Range workspace{};
  int math_mode = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
};

namespace {

using namespace gpu_model;

/// "Workspace size equal to or larger than 16KiB is enough to prevent CUBLAS_STATUS_ALLOC_FAILED."
constexpr std::size_t kEnoughWorkspace = std::size_t{16} << 10;

Handles<cublasContext>& handles() {
  static auto& all = *new Handles<cublasContext>;
  return all;
}

bool is_math_mode(int mode) {
  const int without_flag = mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  return without_flag == CUBLAS_DEFAULT_MATH || without_flag == CUBLAS_PEDANTIC_MATH ||
         without_flag == CUBLAS_TF32_TENSOR_OP_MATH;
}

Scale scale_of(const cublasContext& handle, const void* address) {
  const auto* const at = static_cast<const float*>(address);
  return handle.pointer_mode == CUBLAS_POINTER_MODE_HOST ? Scale{*at} : Scale{0, at};
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const int device = current_device();
  if (const cublasStatus_t error = open_context(device)) return error;
  *handle = handles().make(device);
  return CUBLAS_STATUS_SUCCESS;
}

/// "The release of those resources by calling cublasDestroy() will implicitly call cudaDeviceSynchronize()."
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  cudaDeviceSynchronize();
  handles().destroy(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the function requires an architectural feature absent from the device";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "an access to GPU memory space failed";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the requested functionality is not supported";
  }
  return "unrecognized status";
}

/// Also "unconditionally resets the cuBLAS library workspace back to the default workspace pool".
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (device_of(stream) < 0) return CUBLAS_STATUS_INVALID_VALUE;
  handle->stream = stream;
  handle->has_workspace = false;
  handle->workspace = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment != 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->has_workspace = true;
  handle->workspace = {workspace, bytes};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is_math_mode(mode)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                            const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t algorithm) {
  if (!handles().contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto layout = [](cudaDataType type, cublasOperation_t operation, int rows, int columns, int ld) {
    if (operation != CUBLAS_OP_N) std::swap(rows, columns);
    return Layout{type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), ld};
  };
  Product product{.compute_type = compute_type,
                  .scale_type = CUDA_R_32F,
                  .op_a = transa,
                  .op_b = transb,
                  .a_layout = layout(a_type, transa, m, k, lda),
                  .b_layout = layout(b_type, transb, k, n, ldb),
                  .c_layout = layout(c_type, CUBLAS_OP_N, m, n, ldc),
                  .a = a,
                  .b = b,
                  .c = c};
  if (const cublasStatus_t error = check(product)) return error;
  if (algorithm != CUBLAS_GEMM_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  product.alpha = scale_of(*handle, alpha);
  product.beta = scale_of(*handle, beta);
  if (c == nullptr && product.beta.device == nullptr && product.beta.value != 0) {
    return CUBLAS_STATUS_INVALID_VALUE;  // "C == NULL if C needs to be scaled"
  }
  if (handle->has_workspace && handle->workspace.bytes < kEnoughWorkspace) return CUBLAS_STATUS_ALLOC_FAILED;
  const bool allows_tf32 = (handle->math_mode & CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_TF32_TENSOR_OP_MATH;
  if (allows_tf32 && compute_type == CUBLAS_COMPUTE_32F && a_type == CUDA_R_32F) {
    product.compute_type = CUBLAS_COMPUTE_32F_FAST_TF32;
  }
  return queue_product(product, {"cublasGemmEx", __builtin_return_address(0), handle->device, handle->stream,
                                 handle->workspace});
}
}
