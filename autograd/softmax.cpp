#include <utility>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/softmax_rows.h"

namespace ringtape {

Tensor softmax(const Tensor& x) {
  check_floating("softmax", x);
  check(x.dims() >= 1, "softmax: expected at least one dimension, found {}", describe(x));
  const OperationScope span("softmax", {&x});
  Tensor y = empty_like(x);
  const std::int64_t rows = x.shape().without(-1).elements(), columns = x.size(-1);
  add_work({.flops = 4 * x.elements(), .bytes = bytes_of({&x, &y})});
  softmax_forward(stream_of(x), x.dtype(), x.raw(), y.raw(), rows, columns);
  if (Tape::records({&x})) {
    Tape::current().record("softmax", {x}, y, {y}, [rows, columns](BackwardContext& context) {
      const Tensor& out = context.saved(0);
      Tensor& dy = context.grad_output();
      add_work({.flops = 4 * dy.elements(), .bytes = bytes_of({&out, &dy, &dy})});
      softmax_backward(stream_of(dy), dy.dtype(), out.raw(), dy.raw(), dy.raw(), rows, columns, false);
      context.add_grad(0, std::move(dy));
    });
  }
  return y;
}

}  // namespace ringtape
