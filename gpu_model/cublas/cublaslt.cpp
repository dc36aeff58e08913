// cuBLASLt, as "Using the cuBLASLt API" of the cuBLAS reference (13.0) describes it.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu_model/cublas/product.h"
#include "gpu_model/include/gpu_model/model.h"

struct cublasLtContext {
  int device;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t ld;
};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute_type;
  cudaDataType scale_type;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = 7;
  std::uint32_t alignments[4] = {256, 256, 256, 256};  ///< of A, B, C and D, in bytes
};

namespace {

bool epilogues_refused = false;

/// What the heuristic's choice counts on. The real structure is opaque.
struct Algorithm {
  std::uint64_t workspace_bytes;
  std::uint64_t bias_alignment;
  std::uint32_t alignments[4];
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// The largest power of 2, up to 256, that divides the address.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & -bits);
}

template <class Value>
cublasStatus_t set(Value& attribute, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof attribute) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool has_bias(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}
bool has_relu(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}
bool has_vector(std::uint32_t epilogue) {
  return has_bias(epilogue) || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

struct Layouts {
  const cublasLtMatrixLayoutOpaque_t &a, &b, &c, &d;
};

/// The errors of sizes and leading dimensions that contradict each other, and of a bias without its vector.
bool fit(const cublasLtMatmulDescOpaque_t& operation, const Layouts& l) {
  const bool ta = operation.transpose_a != CUBLAS_OP_N, tb = operation.transpose_b != CUBLAS_OP_N;
  const auto m = ta ? l.a.columns : l.a.rows, k = ta ? l.a.rows : l.a.columns;
  const auto n = tb ? l.b.rows : l.b.columns, k_of_b = tb ? l.b.columns : l.b.rows;
  if (k != k_of_b || l.d.rows != m || l.d.columns != n || l.c.rows != m || l.c.columns != n) return false;
  for (const auto* const layout : {&l.a, &l.b, &l.c, &l.d}) {
    if (layout->ld < static_cast<std::int64_t>(layout->rows)) return false;
  }
  return !has_vector(operation.epilogue) || operation.bias != nullptr;
}

/// The rows of the reference's table of types for a scale of f32 and regular matrices. The bias has D's type.
bool supported(const cublasLtMatmulDescOpaque_t& operation, const Layouts& l) {
  if (operation.scale_type != CUDA_R_32F || l.a.type != l.b.type || l.c.type != l.d.type) return false;
  if (operation.compute_type != CUBLAS_COMPUTE_32F &&
      !(operation.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32 && l.a.type == CUDA_R_32F)) {
    return false;
  }
  const bool has_epilogue = operation.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (has_epilogue && epilogues_refused) return false;
  if (has_epilogue && !has_vector(operation.epilogue) && !has_relu(operation.epilogue)) return false;
  const bool half = l.a.type == CUDA_R_16F || l.a.type == CUDA_R_16BF;
  return l.d.type == l.a.type ? half || l.a.type == CUDA_R_32F : half && l.d.type == CUDA_R_32F;
}

gpu_model::Product product_of(const cublasLtMatmulDescOpaque_t& operation, const Layouts& l, float alpha,
                              const void* a, const void* b, float beta, void* d) {
  const bool ta = operation.transpose_a != CUBLAS_OP_N, tb = operation.transpose_b != CUBLAS_OP_N;
  gpu_model::Product product{
      operation.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32,
      ta,
      tb,
      l.d.rows,
      l.d.columns,
      ta ? l.a.rows : l.a.columns,
      alpha,
      beta,
      a,
      l.a.type,
      static_cast<std::size_t>(l.a.ld),
      b,
      l.b.type,
      static_cast<std::size_t>(l.b.ld),
      d,
      l.d.type,
      static_cast<std::size_t>(l.d.ld),
  };
  if (has_bias(operation.epilogue)) product.bias = operation.bias;
  product.relu = has_relu(operation.epilogue);
  if (operation.epilogue == CUBLASLT_EPILOGUE_BGRADB) product.bias_gradient = operation.bias;
  return product;
}

}  // namespace

namespace gpu_model {

void refuse_epilogues(bool refused) {
  epilogues_refused = refused;
}

}  // namespace gpu_model

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{gpu_model::current_device()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute_type,
                                        cudaDataType scale_type) {
  *description = new cublasLtMatmulDescOpaque_t{compute_type, scale_type};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                 bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* returned) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *returned = 0;
  const Layouts layouts{*a, *b, *c, *d};
  if (requested < 1 || !fit(*description, layouts)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*description, layouts)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // As much of the workspace as an algorithm that divides k may take.
  Algorithm chosen{
      std::min<std::uint64_t>(preference->workspace_bytes, 1 << 20), alignment_of(description->bias), {}};
  std::copy_n(preference->alignments, 4, chosen.alignments);
  results[0] = {};
  std::memcpy(&results[0].algo, &chosen, sizeof chosen);
  results[0].workspaceSize = chosen.workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Layouts layouts{*a_layout, *b_layout, *c_layout, *d_layout};
  if (!fit(*description, layouts) || algorithm == nullptr || alpha == nullptr || beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (c == d && c_layout->ld != d_layout->ld) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*description, layouts) || c != d) return CUBLAS_STATUS_NOT_SUPPORTED;  // Ringtape's C is D
  Algorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (workspace_bytes < chosen.workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  if (chosen.workspace_bytes > 0 && alignment_of(workspace) < 16) return CUBLAS_STATUS_INVALID_VALUE;
  if (handle->device != gpu_model::current_device()) return CUBLAS_STATUS_EXECUTION_FAILED;
  // A GPU would stop at a misaligned address.
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (alignment_of(operands[i]) < chosen.alignments[i]) return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (alignment_of(description->bias) < chosen.bias_alignment) return CUBLAS_STATUS_EXECUTION_FAILED;

  gpu_model::Operation operation =
      gpu_model::operation_of(product_of(*description, layouts, *static_cast<const float*>(alpha), a, b,
                                         *static_cast<const float*>(beta), d),
                              "cublasLtMatmul", __builtin_return_address(0));
  if (chosen.workspace_bytes > 0) operation.writes.push_back({workspace, chosen.workspace_bytes});
  return gpu_model::enqueue(stream, std::move(operation)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                         : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
