// Products with an epilogue: cuBLASLt adds the bias, or computes the sums for the bias's gradient, in the
// product's launch. Its epilogues with ReLU are not used: on an H100 (cuBLAS 13.1) those of bf16 turned NaN
// into 0.
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/cublas_handles.h"
#include "kernels/gemm_vendor.h"

namespace ringtape {
namespace {

/// One of cuBLASLt's descriptors, destroyed at the end of its scope.
template <auto destroy, class Handle>
struct Destroy {
  void operator()(Handle handle) const { destroy(handle); }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy, Handle>>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  RINGTAPE_CUBLAS(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value));
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  RINGTAPE_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

/// cuBLASLt is column-major, so our row-major C is C^T there: C^T = op(B)^T op(A)^T, and our B comes first.
Operation operation_of(const Stream& stream, const GemmArgs& args) {
  const bool rounds = args.dtype == DType::f32 && tf32(stream.device());
  cublasLtMatmulDesc_t made;
  RINGTAPE_CUBLAS(cublasLtMatmulDescCreate(&made, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                           CUDA_R_32F));
  Operation operation(made);
  const auto op = [](bool transposed) -> std::int32_t { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, op(args.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, op(args.transpose_a));
  // BGRADB: the sums of the second operand, our A, over k. Both vectors have C's dtype.
  const bool sums = args.a_sums != nullptr;
  const void* const vector = sums ? args.a_sums : args.bias;
  const std::uint32_t epilogue = sums ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BIAS;
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  return operation;
}

/// The layout of a row-major matrix, for cuBLASLt its transpose.
Layout layout_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t ld) {
  cublasLtMatrixLayout_t made;
  RINGTAPE_CUBLAS(cublasLtMatrixLayoutCreate(&made, cublas_dtype(dtype), static_cast<std::uint64_t>(columns),
                                             static_cast<std::uint64_t>(rows), ld));
  return Layout(made);
}

/// The largest power of 2, up to 256, that divides the address: an algorithm may rely on it.
std::uint32_t alignment_of(const void* address) {
  const std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & -bits);
}

/// Whether every row of A, B and C is aligned to 16 bytes.
bool has_aligned_rows(const GemmArgs& args) {
  const auto is_aligned = [](const void* first, std::int64_t ld, DType dtype) {
    return alignment_of(first) >= 16 && ld * static_cast<std::int64_t>(size_of(dtype)) % 16 == 0;
  };
  return is_aligned(args.a, args.lda, args.dtype) && is_aligned(args.b, args.ldb, args.dtype) &&
         is_aligned(args.c, args.ldc, args.out_dtype);
}

Preference preference_of(const GemmArgs& args, std::uint64_t workspace_bytes) {
  cublasLtMatmulPreference_t made;
  RINGTAPE_CUBLAS(cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Sums stay in f32 where k is divided.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(args.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(args.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(args.c));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(args.c));
  return preference;
}

}  // namespace

bool gemm_cublaslt(const Stream& stream, const GemmArgs& args) {
  if (args.bias != nullptr && args.a_sums != nullptr) return false;  // no epilogue does both
  // On an H100 (cuBLAS 13.1) bf16 products of rows with less alignment were rounded before the bias was
  // added.
  if (args.bias != nullptr && size_of(args.out_dtype) == 2 && !has_aligned_rows(args)) return false;
  if (args.a_sums != nullptr && args.alpha != 1) return false;  // whether alpha scales them is not documented
  // No preference tells the heuristic how the epilogue's vector is aligned, and its kernels may read 16
  // bytes.
  if (alignment_of(args.a_sums != nullptr ? args.a_sums : args.bias) < 16) return false;
  const CublasHandles& handles = cublas_handles(stream);
  const Operation operation = operation_of(stream, args);
  const Layout a = args.transpose_a ? layout_of(args.dtype, args.k, args.m, args.lda)
                                    : layout_of(args.dtype, args.m, args.k, args.lda);
  const Layout b = args.transpose_b ? layout_of(args.dtype, args.n, args.k, args.ldb)
                                    : layout_of(args.dtype, args.k, args.n, args.ldb);
  const Layout c = layout_of(args.out_dtype, args.m, args.n, args.ldc);
  const Preference preference = preference_of(args, handles.workspace_bytes);

  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handles.lt, operation.get(), b.get(), a.get(), c.get(), c.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return false;
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  const float alpha = static_cast<float>(args.alpha), beta = static_cast<float>(args.beta);
  const cublasStatus_t done =
      cublasLtMatmul(handles.lt, operation.get(), &alpha, args.b, b.get(), args.a, a.get(), &beta, args.c,
                     c.get(), args.c, c.get(), &found.algo, handles.workspace, handles.workspace_bytes,
                     static_cast<cudaStream_t>(stream.native()));
  if (done == CUBLAS_STATUS_NOT_SUPPORTED) return false;  // the heuristic may have been wrong
  check_cublas(done, "cublasLtMatmul");
  note_product(args);
  return true;
}

}  // namespace ringtape
