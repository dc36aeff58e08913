#pragma once

#include <string>

#include "kernels/gemm.h"

/// The functions of the vendor libraries; kernels/gemm.cpp chooses among them. The arguments have been
/// validated: no size is 0 and the leading dimensions are filled in.
namespace ringtape {

/// Multiplies on the CPU, and returns false (having done nothing) where the library lacks this combination of
/// dtypes. Built from gemm_onednn.cpp or gemm_openblas.cpp.
bool gemm_cpu_vendor(const GemmArgs& args);
std::string gemm_cpu_vendor_name();

/// Queues the multiplication on a CUDA stream with cuBLAS, whose device becomes the current one, and returns
/// false (having done nothing) where cuBLAS would round a 16-bit result twice: with a bias and beta, or with
/// a bias and gaps between the rows of C.
bool gemm_cublas(const Stream& stream, const GemmArgs& args);
std::string gemm_cublas_name();

/// The same for a product with a bias, ReLU or `a_sums`, in one launch with cuBLASLt, as a part of the
/// product. Returns false (having done nothing) where it has no algorithm for
/// them.
bool gemm_cublaslt(const Stream& stream, const GemmArgs& args);

}  // namespace ringtape
