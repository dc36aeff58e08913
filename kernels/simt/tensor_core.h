#pragma once

#include "core/dtype.h"
#include "kernels/simt/executor.h"

/// A model of ldmatrix and mma.m16n8k16 for the CPU: the lanes of a warp wait at a barrier, and the last one
/// to arrive moves the elements as the instruction does. Kernels use it through kernels/common/tensor_core.h.
namespace ringtape::simt {

/// Eight 16-bit elements, as a lane reads them for ldmatrix.
struct MatrixRow {
  unsigned words[4];
};

/// ldmatrix.x4 (.trans when `transposed`): `row` is the row that this lane reads; `registers` receive its
/// result.
void exchange_matrices(const MatrixRow& row, bool transposed, unsigned (&registers)[4],
                       SourceLocation location);

/// mma.m16n8k16 on bf16 or f16: sums += A B. Products are added in f32 in the order of k; a GPU's order is
/// unspecified.
void multiply_matrices(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], DType dtype,
                       SourceLocation location);

}  // namespace ringtape::simt
