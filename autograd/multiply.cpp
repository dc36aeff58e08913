#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace ringtape {

Tensor multiply(const Tensor& a, const Tensor& b) {
  check_same("multiply", a, b);
  const OperationScope span("multiply", {&a, &b});
  Tensor y = empty_like(a);
  add_work({.flops = y.elements(), .bytes = bytes_of({&a, &b, &y})});
  multiply(stream_of(y), y.dtype(), a.raw(), b.raw(), y.raw(), y.elements(), false);
  if (Tape::records({&a, &b})) {
    std::vector<Tensor> saved(2);  // each is read for the other's gradient
    if (b.requires_grad()) saved[0] = a;
    if (a.requires_grad()) saved[1] = b;
    Tape::current().record("multiply", {a, b}, y, saved, [](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      for (std::size_t input : {0u, 1u}) {
        if (!context.needs_grad(input)) continue;
        const GradTarget dx = context.grad_target(input);
        add_work({.flops = dy.elements(), .bytes = 2 * bytes_of({&dy}) + bytes_of(dx)});
        multiply(stream_of(dy), dy.dtype(), dy.raw(), context.saved(1 - input).raw(), dx.grad.raw(),
                 dy.elements(), dx.accumulate);
      }
    });
  }
  return y;
}

}  // namespace ringtape
