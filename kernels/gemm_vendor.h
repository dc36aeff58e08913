#pragma once

#include <string>

#include "kernels/gemm.h"

/// The functions of the vendor libraries; kernels/gemm.cpp chooses among them. The arguments have been
/// validated: no size is 0 and the leading dimensions are filled in.
namespace ringtape {

/// A size or a leading dimension as cuBLAS and CBLAS count it. Throws an Error that names `library` if it is
/// beyond 2^31 - 1.
int int_size(std::int64_t size, const char* library);

/// Multiplies on the CPU, and returns false (having done nothing) where the library cannot compute this
/// product, such as one of a dtype that it lacks. Built from gemm_onednn.cpp or gemm_openblas.cpp.
bool gemm_cpu_vendor(const GemmArgs& args);
std::string gemm_cpu_vendor_name();

/// Queues the multiplication by cuBLAS on a CUDA stream, whose device becomes the current one. Returns false
/// (having done nothing) where cuBLAS would round a 16-bit result twice: with a bias and beta, or with a bias
/// and gaps between the rows of C.
bool gemm_cublas(const Stream& stream, const GemmArgs& args);
std::string gemm_cublas_name();

/// The same by cuBLASLt for a product with a bias or `a_sums`, as a part of the product's launch; not ReLU.
/// Returns false (having done nothing) where cuBLASLt has no algorithm for it, where it would round a 16-bit
/// result twice, or where the vector of bias or sums is not aligned to 16 bytes.
bool gemm_cublaslt(const Stream& stream, const GemmArgs& args);

}  // namespace ringtape
