#pragma once

#include "kernels/common/kernel.h"
#include "kernels/gemm.h"

/// Shared by our own kernels of the matrix product: the operands as a kernel reads them, and how it writes
/// C.
namespace ringtape::RINGTAPE_TARGET {

/// op(A) or op(B) as the kernel reads it: `outer` counts rows of op(A) or columns of op(B).
template <class T>
struct GemmOperand {
  const T* data;
  std::int64_t ld;
  std::int64_t outer;
  bool k_contiguous;  // neighbours in memory differ in k, else in outer
};

template <class T, class Out>
struct Problem {
  GemmOperand<T> a, b;
  std::int64_t k;
  Out* c;
  std::int64_t ldc;
  const Out* bias;
  accumulate_t<T> alpha, beta;
};

template <class T, class Out>
Problem<T, Out> problem_of(const GemmArgs& args) {
  return {
      {static_cast<const T*>(args.a), args.lda, args.m, !args.transpose_a},
      {static_cast<const T*>(args.b), args.ldb, args.n, args.transpose_b},
      args.k,
      static_cast<Out*>(args.c),
      args.ldc,
      static_cast<const Out*>(args.bias),
      static_cast<accumulate_t<T>>(args.alpha),
      static_cast<accumulate_t<T>>(args.beta),
  };
}

/// Writes `valid` of W neighbouring elements of C: alpha * sum + beta * C + bias. `bias` is null for none.
template <class Out, int W>
__device__ void write_result(Out* c, Vec<accumulate_t<Out>, W> value, int valid, const Out* bias,
                             accumulate_t<Out> alpha, accumulate_t<Out> beta) {
  const bool whole = valid == W;
#pragma unroll
  for (int i = 0; i < W; ++i) value[i] *= alpha;
  if (beta != 0 && whole) {
    const auto old = load_vec<W>(c);
#pragma unroll
    for (int i = 0; i < W; ++i) value[i] += beta * to_accumulate(old[i]);
  }
  if (bias != nullptr && whole) {
    const auto b = load_vec<W>(bias);
#pragma unroll
    for (int i = 0; i < W; ++i) value[i] += to_accumulate(b[i]);
  }
  if (whole) {
    Vec<Out, W> result;
#pragma unroll
    for (int i = 0; i < W; ++i) result[i] = from_accumulate<Out>(value[i]);
    store_vec(c, result);
    return;
  }
#pragma unroll
  for (int i = 0; i < W; ++i) {
    if (i >= valid) break;
    if (beta != 0) value[i] += beta * to_accumulate(c[i]);
    if (bias != nullptr) value[i] += to_accumulate(bias[i]);
    c[i] = from_accumulate<Out>(value[i]);
  }
}

}  // namespace ringtape::RINGTAPE_TARGET
