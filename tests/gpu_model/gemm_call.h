#pragma once

#include <cublas_v2.h>

#include <cstring>
#include <vector>

#include "tests/gpu_model/support.h"

/// A product by cuBLAS and its operands.
namespace gpu_model::test {

class OwnHandle {
 public:
  OwnHandle() { REQUIRE(cublasCreate(&handle_) == CUBLAS_STATUS_SUCCESS); }
  ~OwnHandle() { cublasDestroy(handle_); }
  OwnHandle(const OwnHandle&) = delete;
  OwnHandle& operator=(const OwnHandle&) = delete;
  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

/// A call that a test can spoil: C [8, 2] = A [8, 4] B [4, 2] in columns.
struct Gemm {
  cublasHandle_t handle;
  const void *a, *b;
  void* c;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  int m = 8, n = 2, k = 4, lda = 8, ldb = 4, ldc = 8;
  cudaDataType a_type = CUDA_R_32F, b_type = CUDA_R_32F, c_type = CUDA_R_32F;
  cublasComputeType_t compute_type = CUBLAS_COMPUTE_32F;
  cublasGemmAlgo_t algorithm = CUBLAS_GEMM_DEFAULT;
  float one = 1, zero = 0;
  const void *alpha = &one, *beta = &zero;

  cublasStatus_t run() const {
    return cublasGemmEx(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type,
                        ldc, compute_type, algorithm);
  }
  void set_types(cudaDataType in, cudaDataType out) {
    a_type = b_type = in;
    c_type = out;
  }
};

inline void set_ints(const DeviceInts& memory, const std::vector<int>& values) {
  REQUIRE(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(int), cudaMemcpyDefault) ==
          cudaSuccess);
}
/// The same f32 in all `count` places.
inline void set_floats(const DeviceInts& memory, float value, std::size_t count) {
  int bits;
  std::memcpy(&bits, &value, sizeof bits);
  set_ints(memory, std::vector<int>(count, bits));
}
inline float float_at(const DeviceInts& memory, std::size_t i = 0) {
  float value = 0;
  peek(&value, memory.get() + i, sizeof value);
  return value;
}

}  // namespace gpu_model::test
