#include <limits>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/reduce.h"

namespace ringtape {
namespace {

/// A tensor seen as [outer, mid, inner] with the sum running over mid.
struct Extents {
  std::int64_t outer = 1, mid = 1, inner = 1;
};

Extents extents_around(const Shape& shape, int dim) {
  Extents e;
  for (int i = 0; i < shape.dims(); ++i) (i < dim ? e.outer : i == dim ? e.mid : e.inner) *= shape[i];
  return e;
}

/// scale * sum over mid, for sum() and mean().
Tensor reduce(const char* operation, const Tensor& x, Extents e, Shape result, double scale) {
  check_floating(operation, x);
  const OperationScope span(operation, {&x});
  Tensor y = empty(result, x.dtype(), x.device());
  add_work({.flops = x.elements(), .bytes = bytes_of({&x, &y})});
  sum_dim(stream_of(x), x.dtype(), x.raw(), e.outer, e.mid, e.inner, scale, x.dtype(), y.raw(), false);
  if (Tape::records({&x})) {
    Tape::current().record(operation, {x}, y, {}, [e, scale](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      const GradTarget dx = context.grad_target(0);
      add_work({.bytes = bytes_of({&dy}) + bytes_of(dx)});
      broadcast_dim(stream_of(dy), dy.dtype(), dy.raw(), e.outer, e.mid, e.inner, scale, dx.grad.raw(),
                    dx.accumulate);
    });
  }
  return y;
}

double one_over(std::int64_t count) {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0 / static_cast<double>(count);
}

Tensor reduce_dim(const char* operation, const Tensor& x, int dim, bool keep_dim, bool is_mean) {
  dim = x.shape().normalize_dim(dim, operation);
  const Shape result = keep_dim ? x.shape().with(dim, 1) : x.shape().without(dim);
  return reduce(operation, x, extents_around(x.shape(), dim), result, is_mean ? one_over(x.size(dim)) : 1.0);
}

}  // namespace

Tensor sum(const Tensor& x) {
  return reduce("sum", x, {1, x.elements(), 1}, {}, 1);
}
Tensor mean(const Tensor& x) {
  return reduce("mean", x, {1, x.elements(), 1}, {}, one_over(x.elements()));
}
Tensor sum(const Tensor& x, int dim, bool keep_dim) {
  return reduce_dim("sum", x, dim, keep_dim, false);
}
Tensor mean(const Tensor& x, int dim, bool keep_dim) {
  return reduce_dim("mean", x, dim, keep_dim, true);
}

}  // namespace ringtape
