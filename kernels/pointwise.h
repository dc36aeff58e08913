#pragma once

#include <cstddef>

#include "kernels/common/launcher.h"

/// The pointwise operations: an element of the result is a function of the inputs' elements at the same
/// index. All are one kernel (kernels/pointwise_kernel.h) with different arithmetic. The table of
/// kernels/pointwise.cu defines them, forward beside backward; the tape, `lens` and bench_kernels use that
/// table.
namespace ringtape {

/// An operand of a kernel: an input, the result, the gradient of the result, or the number alpha.
enum class Operand { a, b, y, dy, alpha };

/// Arrays of n elements each (null where the kernel does not read them), fastest if aligned to 16 bytes, and
/// the number alpha. `result` may be one of the arrays read, but may not overlap them otherwise.
struct PointwiseArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* y = nullptr;
  const void* dy = nullptr;
  double alpha = 0;
  void* result = nullptr;
  bool accumulate = false;  ///< result += instead of result =
};

/// A kernel of the table.
struct PointwiseKernel {
  /// Null where there is nothing to compute: the gradient of the input is dy, which is passed on.
  /// dtype: f32, bf16, f16 and, on the CPU, f64; 16-bit types are computed in f32 and rounded once.
  void (*launch)(const Stream& stream, DType dtype, const PointwiseArguments& arguments, std::int64_t n);
  int flops;  ///< for an element
  Operand reads[4];
  int operands;  ///< the number of operands in `reads`
};

/// A row of the table.
struct PointwiseOperation {
  const char* name;
  const char* does;  ///< as a formula: "y = a b"
  PointwiseKernel forward;
  PointwiseKernel backward[2];  ///< the gradient of a and of b
};

struct PointwiseTable {
  const PointwiseOperation* rows;
  std::size_t size;
};

// The table of each target.
namespace on_cpu {
PointwiseTable pointwise_table();
}
namespace on_cuda {
PointwiseTable pointwise_table();
}

}  // namespace ringtape

// Three operations that are also used without a tape, on plain memory. Floating dtypes, as in the table.

/// y[i] = alpha * x[i]
RINGTAPE_LAUNCHER(scale, DType dtype, const void* x, void* y, std::int64_t n, double alpha);

/// y[i] = a[i] + b[i]
RINGTAPE_LAUNCHER(add, DType dtype, const void* a, const void* b, void* y, std::int64_t n);

/// y[i] += alpha * x[i] (BLAS axpy)
RINGTAPE_LAUNCHER(axpy, DType dtype, double alpha, const void* x, void* y, std::int64_t n);
