#include "autograd/arguments.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace ringtape {

Tensor to(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = empty(x.shape(), dtype, x.device());
  cast(stream_of(x), x.dtype(), x.raw(), dtype, y.raw(), x.elements(), false);
  if (Tape::records({&x}) && is_floating(dtype)) {
    Tape::current().record("to", {x}, y, {}, [](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      const GradTarget dx = context.grad_target(0);
      cast(stream_of(dy), dy.dtype(), dy.raw(), dx.grad.dtype(), dx.grad.raw(), dy.elements(), dx.accumulate);
    });
  }
  return y;
}

Tensor to(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  Tensor y = copy_to(x.detach(), device);
  if (Tape::records({&x})) {
    Tape::current().record("to", {x}, y, {}, [home = x.device()](BackwardContext& context) {
      context.add_grad(0, copy_to(context.grad_output(), home));
    });
  }
  return y;
}

}  // namespace ringtape
