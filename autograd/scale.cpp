#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace ringtape {

Tensor scale(const Tensor& x, double alpha) {
  check_floating("scale", x);
  const OperationScope span("scale", {&x});
  Tensor y = empty_like(x);
  add_work({.flops = y.elements(), .bytes = bytes_of({&x, &y})});
  scale(stream_of(x), x.dtype(), x.raw(), y.raw(), x.elements(), alpha);
  if (Tape::records({&x})) {
    Tape::current().record("scale", {x}, y, {}, [alpha](BackwardContext& context) {
      Tensor& dy = context.grad_output();
      add_work({.flops = dy.elements(), .bytes = 2 * bytes_of({&dy})});
      scale(stream_of(dy), dy.dtype(), dy.raw(), dy.raw(), dy.elements(), alpha);
      context.add_grad(0, std::move(dy));
    });
  }
  return y;
}

}  // namespace ringtape
