#include <limits>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/mse.h"

namespace ringtape {

Tensor mse_loss(const Tensor& prediction, const Tensor& target, Reduction reduction, double divisor) {
  check_same("mse_loss", prediction, target);
  check(divisor > 0, "mse_loss: divisor must be above 0, found {}", divisor);
  const OperationScope span("mse_loss", {&prediction, &target});
  const auto n = static_cast<double>(prediction.elements());
  const double count = reduction == Reduction::mean ? n : 1;
  const double scale = count > 0 ? 1 / (count * divisor) : std::numeric_limits<double>::quiet_NaN();
  Tensor loss = empty({}, prediction.dtype() == DType::f64 ? DType::f64 : DType::f32, prediction.device());
  add_work({.flops = 3 * prediction.elements(), .bytes = bytes_of({&prediction, &target, &loss})});
  mse_forward(stream_of(loss), prediction.dtype(), prediction.raw(), target.raw(), prediction.elements(),
              scale, loss.raw());
  if (Tape::records({&prediction, &target})) {
    Tape::current().record(
        "mse_loss", {prediction, target}, loss, {prediction, target}, [scale](BackwardContext& context) {
          const Tensor& dloss = context.grad_output();
          for (std::size_t input : {0u, 1u}) {
            if (!context.needs_grad(input)) continue;
            const Tensor& from = context.saved(input);
            const GradTarget dx = context.grad_target(input);
            add_work({.flops = 2 * from.elements(), .bytes = 2 * bytes_of({&from}) + bytes_of(dx)});
            mse_backward(stream_of(from), from.dtype(), from.raw(), context.saved(1 - input).raw(),
                         dloss.raw(), from.elements(), scale, dx.grad.raw(), dx.accumulate);
          }
        });
  }
  return loss;
}

}  // namespace ringtape
