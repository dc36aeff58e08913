#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace ringtape {

Tensor to(const Tensor& x, DType dtype) {
  check(x.defined(), "to: expected a tensor, found {}", describe(x));
  if (x.dtype() == dtype) return x;
  const OperationScope span("to", {&x});
  Tensor y = empty(x.shape(), dtype, x.device());
  add_work({.bytes = bytes_of({&x, &y})});
  cast(stream_of(x), x.dtype(), x.raw(), dtype, y.raw(), x.elements(), false);
  if (Tape::records({&x}) && is_floating(dtype)) {
    Tape::current().record("to", {x}, y, {}, [](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      const GradTarget dx = context.grad_target(0);
      add_work({.bytes = bytes_of({&dy}) + bytes_of(dx)});
      cast(stream_of(dy), dy.dtype(), dy.raw(), dx.grad.dtype(), dx.grad.raw(), dy.elements(), dx.accumulate);
    });
  }
  return y;
}

Tensor to(const Tensor& x, Device device) {
  check(x.defined(), "to: expected a tensor, found {}", describe(x));
  if (x.device() == device) return x;
  const OperationScope span("to", {&x});
  add_work({.bytes = 2 * bytes_of({&x})});
  Tensor y = copy_to(x.detach(), device);
  if (Tape::records({&x})) {
    Tape::current().record("to", {x}, y, {}, [home = x.device()](BackwardContext& context) {
      add_work({.bytes = 2 * bytes_of({&context.grad_output()})});
      context.add_grad(0, copy_to(context.grad_output(), home));
    });
  }
  return y;
}

}  // namespace ringtape
