#pragma once

#include <library_types.h>

#include <cstddef>

#include "gpu_model/runtime/engine.h"

namespace gpu_model {

/// C = alpha op(A) op(B) + beta C + bias, the bias added to every column; all column-major.
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
  const void* bias = nullptr;     ///< [m], of C's type; null for none
  bool relu = false;              ///< of the result
  void* bias_gradient = nullptr;  ///< [n], of C's type: the sums of op(B) over k; null for none
};

/// The operation that computes it, for engine.h's enqueue().
Operation operation_of(const Product& product, const char* name, const void* caller);

}  // namespace gpu_model
