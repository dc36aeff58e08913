#include <utility>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/capture.h"
#include "core/random.h"
#include "kernels/dropout.h"

namespace ringtape {

Tensor dropout(const Tensor& x, double p) {
  check_floating("dropout", x);
  check(p >= 0 && p < 1, "dropout: p must be at least 0 and below 1, found {}", p);
  if (p == 0) return x;
  forbid_in_capture("the mask of dropout is drawn, which a replay would repeat");
  const OperationScope span("dropout", {&x});
  Tensor y = empty_like(x);
  const std::uint64_t counters = (static_cast<std::uint64_t>(x.elements()) + 3) / 4;
  const std::uint64_t seed = default_generator().seed, offset = default_generator().take(counters);
  add_work({.flops = x.elements(), .bytes = bytes_of({&x, &y})});
  dropout(stream_of(x), x.dtype(), x.raw(), y.raw(), x.elements(), p, seed, offset);
  if (Tape::records({&x})) {
    Tape::current().record("dropout", {x}, y, {}, [p, seed, offset](BackwardContext& context) {
      Tensor& dy = context.grad_output();
      add_work({.flops = dy.elements(), .bytes = 2 * bytes_of({&dy})});
      dropout(stream_of(dy), dy.dtype(), dy.raw(), dy.raw(), dy.elements(), p, seed, offset);
      context.add_grad(0, std::move(dy));
    });
  }
  return y;
}

}  // namespace ringtape
