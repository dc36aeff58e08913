#include <cblas.h>

#include <limits>

#include "core/error.h"
#include "kernels/bias.h"
#include "kernels/gemm_vendor.h"

namespace ringtape {
namespace {

/// CBLAS counts in int (32 bits in Debian's build).
int to_blas(std::int64_t size) {
  check(size <= std::numeric_limits<int>::max(), "gemm in OpenBLAS: a size of {} is beyond 2^31 - 1", size);
  return static_cast<int>(size);
}

}  // namespace

bool gemm_cpu_vendor(const GemmArgs& args) {
  if (args.dtype != DType::f32 && args.dtype != DType::f64) return false;
  const auto op = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  const auto multiply = [&](auto* cblas_gemm, auto element) {
    using T = decltype(element);
    cblas_gemm(CblasRowMajor, op(args.transpose_a), op(args.transpose_b), to_blas(args.m), to_blas(args.n),
               to_blas(args.k), static_cast<T>(args.alpha), static_cast<const T*>(args.a), to_blas(args.lda),
               static_cast<const T*>(args.b), to_blas(args.ldb), static_cast<T>(args.beta),
               static_cast<T*>(args.c), to_blas(args.ldc));
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
