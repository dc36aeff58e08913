#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/gemm.h"

namespace ringtape {
namespace {

/// target (+)= op(a) op(b), the target being [m, n].
void multiply_into(const GradTarget& target, const Tensor& a, bool transpose_a, const Tensor& b,
                   bool transpose_b) {
  const std::int64_t inner = a.size(transpose_a ? 0 : 1);
  add_work({.flops = 2 * target.grad.elements() * inner, .bytes = bytes_of({&a, &b}) + bytes_of(target)});
  GemmArgs args;
  args.m = target.grad.size(0);
  args.n = target.grad.size(1);
  args.k = inner;
  args.a = a.raw();
  args.b = b.raw();
  args.c = target.grad.raw();
  args.transpose_a = transpose_a;
  args.transpose_b = transpose_b;
  args.dtype = a.dtype();
  args.out_dtype = target.grad.dtype();
  args.beta = target.accumulate ? 1 : 0;
  gemm(stream_of(a), args);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  check_same_kind("matmul", a, b);
  check(a.dims() == 2 && b.dims() == 2, "matmul: expected two matrices, found {} and {}", describe(a),
        describe(b));
  check(a.size(transpose_a ? 0 : 1) == b.size(transpose_b ? 1 : 0),
        "matmul: the inner sizes of {}{} and {}{} differ", describe(a), transpose_a ? " transposed" : "",
        describe(b), transpose_b ? " transposed" : "");
  const OperationScope span("matmul", {&a, &b});
  Tensor y = empty({a.size(transpose_a ? 1 : 0), b.size(transpose_b ? 0 : 1)}, a.dtype(), a.device());
  multiply_into({y, false}, a, transpose_a, b, transpose_b);
  if (Tape::records({&a, &b})) {
    std::vector<Tensor> saved(2);  // the gradient of each input reads the other
    if (b.requires_grad()) saved[0] = a;
    if (a.requires_grad()) saved[1] = b;
    Tape::current().record("matmul", {a, b}, y, saved, [transpose_a, transpose_b](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      if (context.needs_grad(0)) {
        const Tensor& other = context.saved(1);
        if (transpose_a) {
          multiply_into(context.grad_target(0), other, transpose_b, dy, true);
        } else {
          multiply_into(context.grad_target(0), dy, false, other, !transpose_b);
        }
      }
      if (context.needs_grad(1)) {
        const Tensor& other = context.saved(0);
        if (transpose_b) {
          multiply_into(context.grad_target(1), dy, true, other, transpose_a);
        } else {
          multiply_into(context.grad_target(1), other, !transpose_a, dy, false);
        }
      }
    });
  }
  return y;
}

}  // namespace ringtape
