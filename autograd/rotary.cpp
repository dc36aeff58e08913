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

RotaryTable make_rotary_table(std::int64_t positions, std::int64_t head_size, double base, DType dtype,
                              Device device) {
  check(positions > 0, "rotary: expected at least 1 position, found {}", positions);
  check(head_size > 0 && head_size % 2 == 0, "rotary: the head size must be even, found {}", head_size);
  check(base > 0, "rotary: base must be above 0, found {}", base);
  check(dtype == DType::f32 || dtype == DType::f64,
        "rotary: expected a table of f32, or of f64 for an x of f64, found {}", name_of(dtype));
  RotaryTable table;
  table.cosines = empty({positions, head_size / 2}, dtype, device);
  table.sines = empty(table.cosines.shape(), dtype, device);
  rotary_table(stream_of(table.cosines), dtype, table.cosines.raw(), table.sines.raw(), positions, 0,
               head_size, base);
  return table;
}

Tensor rotary(const Tensor& x, const RotaryTable& table, std::int64_t heads, std::int64_t first_position) {
  check_floating("rotary", x);
  check(x.dims() == 3, "rotary: expected [B, T, C], found {}", describe(x));
  check(x.size(0) * x.size(1) >> 32 == 0 && x.size(2) >> 32 == 0,
        "rotary: expected fewer than 2^32 rows and columns, found {}", describe(x));
  const DType expected = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  check(table.cosines.defined() && table.cosines.dtype() == expected && table.cosines.device() == x.device(),
        "rotary: expected a table of {} on {}, found {}", name_of(expected), to_string(x.device()),
        describe(table.cosines));
  const std::int64_t half = table.cosines.size(1), head_size = 2 * half;
  check(heads >= 0 && heads <= x.size(2) / head_size, "rotary: {} heads of {} do not fit input {}", heads,
        head_size, describe(x));
  check(first_position >= 0 && first_position <= table.cosines.size(0) - x.size(1),
        "rotary: {} tokens from position {} on are beyond the table's {}", x.size(1), first_position,
        table.cosines.size(0));
  const OperationScope span("rotary", {&x});
  const RotaryProblem problem{.dtype = x.dtype(),
                              .rows = x.size(0) * x.size(1),
                              .columns = x.size(2),
                              .sequence = x.size(1),
                              .heads = heads,
                              .head_size = head_size,
                              .cosines = nullptr,
                              .sines = nullptr};
  const Tensor cosines = table.cosines.alias({x.size(1), half}, first_position * half);
  const Tensor sines = table.sines.alias({x.size(1), half}, first_position * half);
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
