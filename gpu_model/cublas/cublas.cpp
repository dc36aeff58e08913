#include <cublas_v2.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu_model/runtime/engine.h"

struct cublasContext {
  int device;
  cudaStream_t stream = nullptr;
};

namespace {

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}

float from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  std::uint32_t wide = sign;
  if (magnitude >= 0x7c00u) {
    wide |= 0x7f800000u | ((magnitude & 0x3ffu) << 13);
  } else if (magnitude >= 0x0400u) {
    wide |= (magnitude << 13) + (112u << 23);
  } else {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

float read(const void* from, cudaDataType type, std::size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(from)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(from)[i];
  if (type == CUDA_R_16F) return from_half(bits);
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

void write(void* to, cudaDataType type, std::size_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[i] = value;
  } else if (type == CUDA_R_16F) {
    const _Float16 half = static_cast<_Float16>(value);
    std::memcpy(static_cast<std::uint16_t*>(to) + i, &half, sizeof half);
  } else {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
    static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(bits >> 16);
  }
}

/// Rounds an f32 operand to the 10 mantissa bits of a tensor core, to nearest.
float to_tf32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Product {
  bool rounds;  ///< operands to TF32
  bool transpose_a, transpose_b;
  std::size_t m, n, k;
  float alpha, beta;
  const void* a;
  cudaDataType a_type;
  std::size_t lda;
  const void* b;
  cudaDataType b_type;
  std::size_t ldb;
  void* c;
  cudaDataType c_type;
  std::size_t ldc;
};

/// C = alpha op(A) op(B) + beta C, all column-major, sums in f32 in the order of k.
void multiply(const Product& p) {
  std::vector<float> a(p.m * p.k), sums(p.m);
  for (std::size_t l = 0; l < p.k; ++l) {
    for (std::size_t i = 0; i < p.m; ++i)
      a[l * p.m + i] = read(p.a, p.a_type, p.transpose_a ? i * p.lda + l : l * p.lda + i);
  }
  if (p.rounds) std::transform(a.begin(), a.end(), a.begin(), to_tf32);
  for (std::size_t j = 0; j < p.n; ++j) {
    sums.assign(p.m, 0.0f);
    for (std::size_t l = 0; l < p.k; ++l) {
      const float given = read(p.b, p.b_type, p.transpose_b ? l * p.ldb + j : j * p.ldb + l);
      const float b = p.rounds ? to_tf32(given) : given;
      for (std::size_t i = 0; i < p.m; ++i) sums[i] += a[l * p.m + i] * b;
    }
    for (std::size_t i = 0; i < p.m; ++i) {
      const std::size_t at = j * p.ldc + i;
      const float before = p.beta == 0 ? 0 : p.beta * read(p.c, p.c_type, at);  // with beta 0 C is not read
      write(p.c, p.c_type, at, p.alpha * sums[i] + before);
    }
  }
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext{gpu_model::current_device()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure";
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t mode) {
  return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                            const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t) {
  if (m < 0 || n < 0 || k < 0) return CUBLAS_STATUS_INVALID_VALUE;
  // "The cuBLAS library context is tied to the CUDA context that was current at the time of cublasCreate()."
  if (handle->device != gpu_model::current_device()) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto size = [](int value) { return static_cast<std::size_t>(value); };
  const Product product{compute_type == CUBLAS_COMPUTE_32F_FAST_TF32 && a_type == CUDA_R_32F,
                        transa != CUBLAS_OP_N,
                        transb != CUBLAS_OP_N,
                        size(m),
                        size(n),
                        size(k),
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        a,
                        a_type,
                        size(lda),
                        b,
                        b_type,
                        size(ldb),
                        c,
                        c_type,
                        size(ldc)};
  const auto extent = [](std::size_t columns, std::size_t rows, std::size_t ld, cudaDataType type) {
    return ((columns - 1) * ld + rows) * size_of(type);
  };
  gpu_model::Operation operation;
  operation.name = "cublasGemmEx";
  operation.caller = __builtin_return_address(0);
  operation.reads = {{a, product.transpose_a ? extent(product.m, product.k, product.lda, a_type)
                                             : extent(product.k, product.m, product.lda, a_type)},
                     {b, product.transpose_b ? extent(product.k, product.n, product.ldb, b_type)
                                             : extent(product.n, product.k, product.ldb, b_type)}};
  operation.writes = {{c, extent(product.n, product.m, product.ldc, c_type)}};
  operation.run = [product] {
    multiply(product);
    return gpu_model::Progress::done;
  };
  return gpu_model::enqueue(handle->stream, std::move(operation)) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
