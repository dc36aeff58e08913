#include "kernels/relu.h"
#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"

namespace ringtape {

Tensor relu(const Tensor& x) {
  check_floating("relu", x);
  const OperationScope span("relu", {&x});
  Tensor y = empty_like(x);
  add_work({.bytes = bytes_of({&x, &y})});
  relu_forward(stream_of(x), x.dtype(), x.raw(), y.raw(), x.elements());
  if (Tape::records({&x})) {
    Tape::current().record("relu", {x}, y, {y}, [](BackwardContext& context) {
      const Tensor& out = context.saved(0);
      Tensor& dy = context.grad_output();
      add_work({.bytes = bytes_of({&out, &dy, &dy})});
      relu_backward(stream_of(dy), dy.dtype(), out.raw(), dy.raw(), dy.raw(), dy.elements(), false);
      context.add_grad(0, std::move(dy));
    });
  }
  return y;
}

}  // namespace ringtape
