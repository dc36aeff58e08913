#include "benchmarks/kernels/case.h"
#include "kernels/gemm_tiled.h"

namespace ringtape::kernel_cases {
namespace {

constexpr std::int64_t kDepth = 64;  // columns of op(A), rows of op(B)

/// C = op(A) op(B) for a square C in f32. Not measured by bench_kernels; bench_gemm measures products.
Case product_case(const std::string& name, const std::string& does, std::int64_t usual, bool transpose_a,
                  bool transpose_b, DType dtype = DType::f32) {
  return {.name = name,
          .does = does,
          .prepare =
              [=](Setup& s, const Size& size) {
                const std::int64_t n = size.rows;
                GemmArgs args;
                args.m = args.n = args.ldc = n;
                args.k = kDepth;
                args.lda = transpose_a ? n : kDepth;
                args.ldb = transpose_b ? kDepth : n;
                args.a = s.uniform("a", n * kDepth, dtype);
                args.b = s.uniform("b", kDepth * n, dtype);
                args.c = s.output("c", n * n);
                args.dtype = dtype;
                args.transpose_a = transpose_a;
                args.transpose_b = transpose_b;
                s.launch = [args](const Stream& stream) { gemm_tiled(stream, args); };
              },
          .usual = usual,
          .most = 2048,
          .unit = "rows and columns of C"};
}

}  // namespace

std::vector<Case> gemm_cases() {
  return {
      product_case("gemm_tiled", "A B with k = 64", 256, false, false),
      product_case("gemm_tiled_nt", "A B^T, as in a layer's forward", 256, false, true),
      product_case("gemm_tiled_tn", "A^T B, as in a weight's gradient", 256, true, false),
      product_case("gemm_tiled_small", "A B with the small tile", 32, false, false),
      product_case("gemm_tiled_bf16", "A B in bf16 with k = 64", 256, false, false, DType::bf16),
      product_case("gemm_tiled_bf16_nt", "A B^T in bf16", 256, false, true, DType::bf16),
      product_case("gemm_tiled_bf16_tn", "A^T B in bf16", 256, true, false, DType::bf16),
  };
}

}  // namespace ringtape::kernel_cases
