#pragma once

#include <cstdint>
#include <string>

#include "core/device.h"
#include "core/dtype.h"
#include "core/stream.h"

namespace ringtape {

/// C[m, n] = alpha * op(A) op(B) + beta * C + bias, all row-major.
struct GemmArgs {
  std::int64_t m = 0;  ///< rows of C and of op(A)
  std::int64_t n = 0;  ///< columns of C and of op(B)
  std::int64_t k = 0;  ///< columns of op(A), rows of op(B)

  const void* a = nullptr;  ///< [m, k], or [k, m] when transpose_a
  const void* b = nullptr;  ///< [k, n], or [n, k] when transpose_b
  void* c = nullptr;        ///< [m, n]; must not overlap A or B
  bool transpose_a = false;
  bool transpose_b = false;

  /// Leading dimensions: elements from one stored row to the next; 0 means no gap between rows.
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;

  DType dtype = DType::f32;      ///< of A and B: f32, bf16 or f16; f64 on the CPU
  DType out_dtype = DType::f32;  ///< of C and bias: the dtype of A and B, or f32

  double alpha = 1;
  double beta = 0;             ///< 0 means that C is not read, so it may hold anything
  const void* bias = nullptr;  ///< [n], added to every row; null for none
  bool relu = false;           ///< then negative elements of C become 0; C must have no gaps between its rows
  /// [m], of C's dtype: gets the sums of op(A) over k, which are a bias's gradient where op(A) is the
  /// gradient of a layer's output; null for none. A must then have no gaps between its rows.
  void* a_sums = nullptr;
};

/// Queues the multiplication on `stream`, by the backend chosen for its device. Sums are kept in f32 (f64 for
/// f64). With an m or n of 0, C is not written; a k of 0 gives beta * C + bias.
///
/// A linear layer Y = X W^T + b (X [rows, in], W [out, in]) needs three forms: Y with transpose_b and bias;
/// dX = dY W with neither transposed; dW += dY^T X with transpose_a and beta = 1.
///
/// Throws Error for a negative size, a leading dimension below the row length, a pair of dtypes not listed
/// above, `a_sums` of an A with gaps, or `relu` of a C with gaps.
void gemm(const Stream& stream, const GemmArgs& args);

/// `own` is the tiled kernel of kernels/gemm_tiled.cu and, for many tiles on a GPU, the kernels of
/// gemm_large_f32.cu and gemm_large_half.cu; `vendor` is the library: cuBLAS on the GPU, oneDNN or OpenBLAS
/// on the CPU. 16-bit types that the CPU's library lacks (f16 with oneDNN, both with OpenBLAS) are converted
/// to f32. `own` replaces oneDNN for f64 and for a bias with an alpha other than 1, and cuBLAS for a 16-bit
/// result with a bias and beta or gaps in C. A single row by a transposed B is left to kernels/matvec.cu by
/// `own`, and on the CPU by both: oneDNN 2.6 takes up to twice as long.
enum class GemmBackend { own, vendor };

/// Chooses the backend for devices of this type, in every thread. Throws Error for `vendor` where this build
/// has no library for the device.
void set_gemm_backend(GemmBackend backend, Device device = {});
/// The backend in use: `vendor` where there is one, unless set by set_gemm_backend().
GemmBackend gemm_backend(Device device = {});
/// Lets cuBLAS round the operands of f32 products to TF32 (10 bits of mantissa) on every GPU of this process:
/// the tensor cores of compute capability 8.0 and later multiply TF32 many times as fast. Off by default, as
/// in PyTorch. Our own kernel never uses TF32. Throws Error when it is switched on for a device without TF32.
void set_tf32(bool on, Device device);
/// Whether f32 products on this device may be rounded to TF32.
bool tf32(Device device);

/// The vendor library, such as "oneDNN 2.6", "cuBLAS 13.0" or "OpenBLAS"; "none" without one.
std::string vendor_gemm_name(Device device = {});

}  // namespace ringtape
