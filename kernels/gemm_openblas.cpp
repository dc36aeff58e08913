#include <cblas.h>

#include "kernels/bias.h"
#include "kernels/gemm_vendor.h"

namespace ringtape {

bool gemm_cpu_vendor(const GemmArgs& args) {
  if (args.dtype != DType::f32 && args.dtype != DType::f64) return false;
  // CBLAS counts in int (32 bits in Debian's build).
  const auto to_int = [](std::int64_t size) { return int_size(size, "OpenBLAS"); };
  const auto op = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  const auto multiply = [&](auto* cblas_gemm, auto element) {
    using T = decltype(element);
    cblas_gemm(CblasRowMajor, op(args.transpose_a), op(args.transpose_b), to_int(args.m), to_int(args.n),
               to_int(args.k), static_cast<T>(args.alpha), static_cast<const T*>(args.a), to_int(args.lda),
               static_cast<const T*>(args.b), to_int(args.ldb), static_cast<T>(args.beta),
               static_cast<T*>(args.c), to_int(args.ldc));
  };
  if (args.dtype == DType::f32) {
    multiply(cblas_sgemm, float{});
  } else {
    multiply(cblas_dgemm, double{});
  }
  if (args.bias != nullptr) {
    bias_add(Stream::current({}), args.dtype, args.bias, args.c, args.m, args.n, args.ldc);
  }
  return true;
}

std::string gemm_cpu_vendor_name() {
  return "OpenBLAS";
}

}  // namespace ringtape
