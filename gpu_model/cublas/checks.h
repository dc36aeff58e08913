#pragma once

#include "gpu_model/cublas/product.h"

namespace gpu_model {

/// The documented errors of a product's operations, sizes, leading dimensions and types, for cuBLAS and
/// cuBLASLt: CUBLAS_STATUS_INVALID_VALUE where they contradict each other, CUBLAS_STATUS_NOT_SUPPORTED for
/// types that no row of the reference's tables has.
cublasStatus_t check(const Product& product);

}  // namespace gpu_model
