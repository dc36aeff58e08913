// cuBLASLt, as "Using the cuBLASLt API" of the cuBLAS reference (13.0) describes it.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu_model/cublas/checks.h"
#include "gpu_model/cublas/handles.h"
#include "gpu_model/cublas/queue.h"
#include "gpu_model/include/gpu_model/model.h"

struct cublasLtContext {
  int device;
};
struct cublasLtMatrixLayoutOpaque_t : gpu_model::Layout {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute_type;
  cudaDataType scale_type;
  std::int32_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
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

/// The conditions that the heuristic's choice relies on. The real structure is opaque.
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

bool has_vector(std::uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/// The product that the descriptors describe. Ringtape's C is D.
gpu_model::Product product_of(const cublasLtMatmulDescOpaque_t& operation, const gpu_model::Layout& a,
                              const gpu_model::Layout& b, const gpu_model::Layout& d) {
  gpu_model::Product product{.compute_type = operation.compute_type,
                             .scale_type = operation.scale_type,
                             .op_a = static_cast<cublasOperation_t>(operation.op_a),
                             .op_b = static_cast<cublasOperation_t>(operation.op_b),
                             .a_layout = a,
                             .b_layout = b,
                             .c_layout = d};
  if (operation.epilogue == CUBLASLT_EPILOGUE_BIAS) product.bias = operation.bias;
  if (operation.epilogue == CUBLASLT_EPILOGUE_BGRADB) product.bias_gradient = operation.bias;
  return product;
}

/// The errors of cuBLAS' products, of C and D that differ, and of epilogues. The bias has D's type.
cublasStatus_t check(const cublasLtMatmulDescOpaque_t& operation, const gpu_model::Product& product,
                     const gpu_model::Layout& c) {
  const gpu_model::Layout& d = product.c_layout;
  if (c.rows != d.rows || c.columns != d.columns || c.ld < static_cast<std::int64_t>(c.rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool is_empty = product.m() == 0 || product.n() == 0 || product.k() == 0;
  if (is_empty || (has_vector(operation.epilogue) && operation.bias == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (const cublasStatus_t error = gpu_model::check(product)) return error;
  if (c.type != d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  return has_vector(operation.epilogue) && !epilogues_refused ? CUBLAS_STATUS_SUCCESS
                                                              : CUBLAS_STATUS_NOT_SUPPORTED;
}

/// Whether A, B, C, D and the bias have the alignments that the algorithm relies on.
bool are_aligned(const Algorithm& algorithm, const void* const (&operands)[4], const void* bias) {
  for (int i = 0; i < 4; ++i) {
    if (alignment_of(operands[i]) < algorithm.alignments[i]) return false;
  }
  return alignment_of(bias) >= algorithm.bias_alignment;
}

// The objects by the handles that the program has.
template <class Object>
gpu_model::Handles<Object>& live() {
  static auto& all = *new gpu_model::Handles<Object>;
  return all;
}
template <class... Objects>
bool are_live(const Objects*... objects) {
  return (live<Objects>().contains(objects) && ...);
}
template <class Object, class... Values>
cublasStatus_t make(Object** handle, Values... values) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = live<Object>().make(values...);
  return CUBLAS_STATUS_SUCCESS;
}
/// Null is no error, as for free().
template <class Object>
cublasStatus_t destroy(const Object* handle) {
  return handle == nullptr || live<Object>().destroy(handle) ? CUBLAS_STATUS_SUCCESS
                                                             : CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

namespace gpu_model {

void refuse_epilogues(bool refused) {
  epilogues_refused = refused;
}

}  // namespace gpu_model

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const int device = gpu_model::current_device();
  if (const cublasStatus_t error = gpu_model::open_context(device)) return error;
  return make(handle, device);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return live<cublasLtContext>().destroy(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute_type,
                                        cudaDataType scale_type) {
  return make(description, compute_type, scale_type);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy(description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  if (!are_live(description)) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description->op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description->op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  return make(layout, gpu_model::Layout{type, rows, columns, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (!are_live(preference)) return CUBLAS_STATUS_INVALID_VALUE;
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
  if (!are_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!are_live(description, a, b, c, d, preference)) return CUBLAS_STATUS_INVALID_VALUE;
  if (requested < 1 || results == nullptr || returned == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  if (const cublasStatus_t error = check(*description, product_of(*description, *a, *b, *d), *c))
    return error;
  // As much of the workspace as a split-K algorithm may take.
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
  if (!are_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!are_live(description, a_layout, b_layout, c_layout, d_layout) || algorithm == nullptr ||
      alpha == nullptr || beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  gpu_model::Product product = product_of(*description, *a_layout, *b_layout, *d_layout);
  if (const cublasStatus_t error = check(*description, product, *c_layout)) return error;
  if (c == d && c_layout->ld != d_layout->ld) return CUBLAS_STATUS_INVALID_VALUE;
  if (c != d) return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (workspace_bytes < chosen.workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  if (chosen.workspace_bytes > 0 && alignment_of(workspace) < gpu_model::kWorkspaceAlignment) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // A GPU would stop at a misaligned address.
  if (!are_aligned(chosen, {a, b, c, d}, description->bias)) return CUBLAS_STATUS_EXECUTION_FAILED;
  product.alpha = {*static_cast<const float*>(alpha)};
  product.beta = {*static_cast<const float*>(beta)};
  product.a = a;
  product.b = b;
  product.c = d;
  return gpu_model::queue_product(product, {"cublasLtMatmul",
                                            __builtin_return_address(0),
                                            handle->device,
                                            stream,
                                            {workspace, chosen.workspace_bytes}});
}
}
