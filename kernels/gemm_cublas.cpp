#include "kernels/bias.h"
#include "kernels/cublas_handles.h"
#include "kernels/gemm_vendor.h"
#include "kernels/reduce.h"

namespace ringtape {

bool gemm_cublas(const Stream& stream, const GemmArgs& args) {
  // Where possible C is initialised with the bias, so that a 16-bit result is rounded once.
  const bool bias_first = args.bias != nullptr && args.beta == 0 && args.ldc == args.n;
  if (args.bias != nullptr && !bias_first && size_of(args.out_dtype) == 2) return false;
  if (bias_first) {
    broadcast_dim(stream, args.out_dtype, args.bias, std::int64_t{1}, args.m, args.n, 1.0, args.c, false);
  }
  const auto to_int = [](std::int64_t size) { return int_size(size, "cuBLAS"); };
  // cuBLAS is column-major, so our row-major C is C^T there: C^T = op(B)^T op(A)^T.
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float alpha = static_cast<float>(args.alpha);
  const float beta = bias_first ? 1.0f : static_cast<float>(args.beta);
  const bool rounds = args.dtype == DType::f32 && tf32(stream.device());
  RINGTAPE_CUBLAS(cublasGemmEx(
      cublas_handles(stream).blas, op(args.transpose_b), op(args.transpose_a), to_int(args.n), to_int(args.m),
      to_int(args.k), &alpha, args.b, cublas_dtype(args.dtype), to_int(args.ldb), args.a,
      cublas_dtype(args.dtype), to_int(args.lda), &beta, args.c, cublas_dtype(args.out_dtype),
      to_int(args.ldc), rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  note_product(args);
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
