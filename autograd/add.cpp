#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace ringtape {

Tensor add(const Tensor& a, const Tensor& b) {
  check_same("add", a, b);
  const OperationScope span("add", {&a, &b});
  Tensor y = empty_like(a);
  add_work({.flops = y.elements(), .bytes = bytes_of({&a, &b, &y})});
  add(stream_of(y), y.dtype(), a.raw(), b.raw(), y.raw(), y.elements());
  if (Tape::records({&a, &b})) {
    Tape::current().record("add", {a, b}, y, {}, [](BackwardContext& context) {
      // Both gradients are the output's: one input takes its memory, the other a copy.
      if (!context.needs_grad(1)) return context.add_grad(0, std::move(context.grad_output()));
      if (context.needs_grad(0)) context.add_grad(0, context.grad_output());
      context.add_grad(1, std::move(context.grad_output()));
    });
  }
  return y;
}

}  // namespace ringtape
