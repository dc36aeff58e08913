#pragma once

#include <cstddef>

#include "kernels/common/launcher.h"

/// The pointwise operations: an element of the result is a function of the elements at its place in the
/// inputs. All are one kernel (kernels/pointwise_kernel.h) with different arithmetic; what they compute
/// stands in the table of kernels/pointwise.cu, forward beside backward. The tape, `lens` and bench_kernels
/// go by that table.
namespace ringtape {

/// What a kernel of the table reads: an input, the result, the gradient of the result, or a number.
enum class Operand { a, b, y, dy, alpha };

/// Memory of n elements each (null where the kernel does not read it), aligned to 16 bytes where the kernel
/// is to reach full speed, and the number. `result` may be one of the others, but may not overlap it
/// otherwise.
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
  int operands;  ///< how many of `reads` there are
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
namespace in_analysis {
PointwiseTable pointwise_table();
}

}  // namespace ringtape

// Three that are wanted without a tape, for memory that is no tensor. Floating, as in the table.

/// y[i] = alpha * x[i]
RINGTAPE_LAUNCHER(scale, DType dtype, const void* x, void* y, std::int64_t n, double alpha);

/// y[i] = a[i] + b[i]
RINGTAPE_LAUNCHER(add, DType dtype, const void* a, const void* b, void* y, std::int64_t n);

/// y[i] += alpha * x[i] (BLAS axpy)
RINGTAPE_LAUNCHER(axpy, DType dtype, double alpha, const void* x, void* y, std::int64_t n);
