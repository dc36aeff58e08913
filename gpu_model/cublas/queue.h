#pragma once

#include "gpu_model/cublas/product.h"

namespace gpu_model {

/// "Must be 256B aligned", of the workspaces of cuBLAS and cuBLASLt.
constexpr std::uintptr_t kWorkspaceAlignment = 256;

/// A call that queues a product.
struct ProductCall {
  const char* name;
  const void* caller;  ///< its return address
  int device;          ///< of the handle
  cudaStream_t stream;
  Range workspace;
};

/// Queues the product, with its operands and the workspace as the bytes that it touches. Returns
/// CUBLAS_STATUS_EXECUTION_FAILED where the stream or the current device is not the handle's.
///
/// An operand that the device cannot access (memory of the host, of another device, freed, or shorter than
/// the matrix) is reported, and the product is not computed: as on a GPU the call succeeds, and the device
/// has a sticky error once the work before it is done.
cublasStatus_t queue_product(const Product& product, const ProductCall& call);

}  // namespace gpu_model
