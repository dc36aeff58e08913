#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu_model/runtime/engine.h"

namespace gpu_model {

/// The bytes of an element of f32, f16 or bf16.
std::size_t size_of(cudaDataType type);

/// A column-major matrix.
struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t ld;  ///< elements from one column to the next

  /// From its first element to its last.
  std::size_t bytes() const;
};

/// alpha or beta, an f32.
struct Scale {
  float value;
  const float* device = nullptr;  ///< in pointer mode DEVICE, where it is read when the product runs
};

/// C = alpha op(A) op(B) + beta C + bias, the bias added to every column. A 16-bit C is rounded once. With
/// a bias, and a column of A, B or C that is not aligned to 16 bytes, it is rounded twice, before the bias is
/// added and after, as cuBLAS 13.1 did in bf16 on an H100.
struct Product {
  cublasComputeType_t compute_type;
  cudaDataType scale_type;
  cublasOperation_t op_a, op_b;
  Layout a_layout, b_layout, c_layout;
  Scale alpha{}, beta{};
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;     ///< [m], of C's type; null for none
  void* bias_gradient = nullptr;  ///< [n], of C's type: the sums of op(B) over k; null for none

  std::uint64_t m() const { return op_a == CUBLAS_OP_N ? a_layout.rows : a_layout.columns; }
  std::uint64_t n() const { return op_b == CUBLAS_OP_N ? b_layout.columns : b_layout.rows; }
  std::uint64_t k() const { return op_a == CUBLAS_OP_N ? a_layout.columns : a_layout.rows; }
};

/// Memory that a product reads or writes.
struct Operand {
  const char* name;
  Range range;
  std::size_t alignment;
  bool written;
};
std::vector<Operand> operands_of(const Product& product);

/// Whether two matrices share bytes. The gaps between a matrix's columns do not count.
bool overlap(const void* a, const Layout& a_layout, const void* b, const Layout& b_layout);

/// Computes it. Sums are f32, in the order of k.
void multiply(const Product& product);

}  // namespace gpu_model
