#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstddef>

#include "core/dtype.h"
#include "core/error.h"
#include "core/stream.h"
#include "kernels/gemm.h"

/// Shared by the products by cuBLAS and by cuBLASLt.
namespace ringtape {

/// The handles of one stream, with their own workspace: otherwise cuBLAS would allocate one, which a CUDA
/// graph that is being captured does not allow.
struct CublasHandles {
  cublasHandle_t blas;
  cublasLtHandle_t lt;
  void* workspace;
  std::size_t workspace_bytes;
};

/// Created at a stream's first product, which must therefore run outside a capture; they live as long as the
/// process. The stream's device becomes the current one, because a handle belongs to the current device.
/// Throws Error if there is no memory for the workspace.
const CublasHandles& cublas_handles(const Stream& stream);

inline void check_cublas(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, "{}: {}", call, cublasGetStatusString(status));
}
#define RINGTAPE_CUBLAS(call) check_cublas((call), #call)

/// Tells a capture which product was queued (core/capture.h).
void note_product(const GemmArgs& args);

/// CUDA's name of f32, bf16 or f16.
cudaDataType_t cublas_dtype(DType dtype);

}  // namespace ringtape
