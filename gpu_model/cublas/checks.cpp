#include "gpu_model/cublas/checks.h"

#include <algorithm>

namespace gpu_model {
namespace {

bool is_operation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

bool is_valid(const Layout& layout) {
  return layout.ld >= static_cast<std::int64_t>(std::max<std::uint64_t>(1, layout.rows));
}

bool fit(const Product& p) {
  const std::uint64_t k_of_b = p.op_b == CUBLAS_OP_N ? p.b_layout.rows : p.b_layout.columns;
  return p.k() == k_of_b && p.c_layout.rows == p.m() && p.c_layout.columns == p.n();
}

/// The reference's tables, without the rows that Ringtape has no use for: sums in f16, f64, integers and
/// complex numbers.
bool has_row(const Product& p) {
  const cudaDataType in = p.a_layout.type, out = p.c_layout.type;
  if (p.scale_type != CUDA_R_32F || p.b_layout.type != in) return false;
  switch (p.compute_type) {
    case CUBLAS_COMPUTE_32F:
      if (in == CUDA_R_16F || in == CUDA_R_16BF) return out == in || out == CUDA_R_32F;
      [[fallthrough]];
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return in == CUDA_R_32F && out == CUDA_R_32F;
    default:
      return false;
  }
}

}  // namespace

cublasStatus_t check(const Product& p) {
  if (!is_operation(p.op_a) || !is_operation(p.op_b)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_valid(p.a_layout) || !is_valid(p.b_layout) || !is_valid(p.c_layout) || !fit(p)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return has_row(p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace gpu_model
