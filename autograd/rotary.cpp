#include <utility>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/rotary.h"

namespace ringtape {
namespace {

void turn(RotaryProblem problem, const Tensor& cosines, const Tensor& sines, const Tensor& x, const Tensor& y,
          bool inverse) {
  problem.cosines = cosines.raw();
  problem.sines = sines.raw();
  add_work({.flops = 3 * problem.rows * problem.heads * problem.head_size, .bytes = bytes_of({&x, &y})});
  rotary(stream_of(x), problem, x.raw(), y.raw(), inverse);
}

}  // namespace

Tensor rotary(const Tensor& x, std::int64_t head_size, std::int64_t heads, double base,
              std::int64_t first_position) {
  check_floating("rotary", x);
  check(x.dims() == 3, "rotary: expected [B, T, C], found {}", describe(x));
  check(head_size > 0 && head_size % 2 == 0, "rotary: the head size must be even, found {}", head_size);
  check(heads >= 0 && heads <= x.size(2) / head_size, "rotary: {} heads of {} do not fit input {}", heads,
        head_size, describe(x));
  check(base > 0, "rotary: base must be above 0, found {}", base);
  check(first_position >= 0, "rotary: the first position must be at least 0, found {}", first_position);
  const OperationScope span("rotary", {&x});
  const RotaryProblem problem{.dtype = x.dtype(),
                              .rows = x.size(0) * x.size(1),
                              .columns = x.size(2),
                              .sequence = x.size(1),
                              .heads = heads,
                              .head_size = head_size,
                              .cosines = nullptr,
                              .sines = nullptr};
  const DType table = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor cosines = empty({x.size(1), head_size / 2}, table, x.device());
  const Tensor sines = empty(cosines.shape(), table, x.device());
  rotary_table(stream_of(x), table, cosines.raw(), sines.raw(), x.size(1), first_position, head_size, base);
  Tensor y = empty_like(x);
  turn(problem, cosines, sines, x, y, false);
  if (Tape::records({&x})) {
    Tape::current().record("rotary", {x}, y, {cosines, sines}, [problem](BackwardContext& context) {
      Tensor& dy = context.grad_output();
      turn(problem, context.saved(0), context.saved(1), dy, dy, true);
      context.add_grad(0, std::move(dy));
    });
  }
  return y;
}

}  // namespace ringtape
