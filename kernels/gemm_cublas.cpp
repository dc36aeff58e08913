#include <cublas_v2.h>

#include <limits>
#include <map>
#include <mutex>

#include "core/cuda_check.h"
#include "core/error.h"
#include "kernels/bias.h"
#include "kernels/gemm_vendor.h"
#include "kernels/reduce.h"

namespace ringtape {
namespace {

void check_cublas(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, "{}: {}", call, cublasGetStatusString(status));
}

#define RINGTAPE_CUBLAS(call) check_cublas((call), #call)

/// A cuBLAS handle for each stream, with a workspace of its own: cuBLAS would otherwise allocate one, which a
/// CUDA graph being captured does not allow. They live as long as the process. A stream's first GEMM must
/// therefore run outside a capture.
cublasHandle_t handle_of(const Stream& stream) {
  constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper
  static std::mutex mutex;
  // Never destroyed: at the end of the process CUDA may be gone before.
  static auto& handles = *new std::map<void*, cublasHandle_t>;
  const std::lock_guard lock(mutex);
  const auto known = handles.find(stream.native());
  if (known != handles.end()) return known->second;

  void* workspace = nullptr;
  RINGTAPE_CUDA(cudaMalloc(&workspace, kWorkspaceBytes));  // first: it is what may fail
  cublasHandle_t handle;
  RINGTAPE_CUBLAS(cublasCreate(&handle));
  RINGTAPE_CUBLAS(cublasSetStream(handle, static_cast<cudaStream_t>(stream.native())));
  RINGTAPE_CUBLAS(cublasSetWorkspace(handle, workspace, kWorkspaceBytes));
  // Sums stay in f32, also where cuBLAS splits k and the result has 16 bits.
  RINGTAPE_CUBLAS(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  handles.emplace(stream.native(), handle);
  return handle;
}

cudaDataType_t cuda_dtype(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

int to_blas(std::int64_t size) {
  check(size <= std::numeric_limits<int>::max(), "gemm in cuBLAS: a size of {} is beyond 2^31 - 1", size);
  return static_cast<int>(size);
}

}  // namespace

bool gemm_cublas(const Stream& stream, const GemmArgs& args) {
  // Where possible C is initialised with the bias, so that a 16-bit result is rounded once.
  const bool bias_first = args.bias != nullptr && args.beta == 0 && args.ldc == args.n;
  if (args.bias != nullptr && !bias_first && size_of(args.out_dtype) == 2) return false;
  if (bias_first) {
    broadcast_dim(stream, args.out_dtype, args.bias, std::int64_t{1}, args.m, args.n, 1.0, args.c, false);
  }
  // cuBLAS is column-major, so our row-major C is C^T there: C^T = op(B)^T op(A)^T.
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float alpha = static_cast<float>(args.alpha);
  const float beta = bias_first ? 1.0f : static_cast<float>(args.beta);
  const bool rounds = args.dtype == DType::f32 && tf32(stream.device());
  RINGTAPE_CUDA(cudaSetDevice(stream.device().index));  // a handle belongs to the device that is current
  const cublasHandle_t handle = handle_of(stream);
  RINGTAPE_CUBLAS(cublasGemmEx(
      handle, op(args.transpose_b), op(args.transpose_a), to_blas(args.n), to_blas(args.m), to_blas(args.k),
      &alpha, args.b, cuda_dtype(args.dtype), to_blas(args.ldb), args.a, cuda_dtype(args.dtype),
      to_blas(args.lda), &beta, args.c, cuda_dtype(args.out_dtype), to_blas(args.ldc),
      rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  if (args.bias != nullptr && !bias_first) {
    bias_add(stream, args.out_dtype, args.bias, args.c, args.m, args.n, args.ldc);
  }
  return true;
}

std::string gemm_cublas_name() {
  int major = 0;
  int minor = 0;
  RINGTAPE_CUBLAS(cublasGetProperty(MAJOR_VERSION, &major));
  RINGTAPE_CUBLAS(cublasGetProperty(MINOR_VERSION, &minor));
  return fmt::format("cuBLAS {}.{}", major, minor);
}

}  // namespace ringtape
