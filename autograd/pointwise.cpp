#include <utility>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/pointwise_table.h"

namespace ringtape {
namespace {

/// Launches a kernel whose operands have the size of `result`, and reports its work to a profiler.
void run(const PointwiseKernel& kernel, PointwiseArguments arguments, const Tensor& result) {
  const int arrays = arrays_of(kernel) + (arguments.accumulate ? 1 : 0);
  add_work({.flops = kernel.flops * result.elements(), .bytes = arrays * bytes_of({&result})});
  arguments.result = result.raw();
  kernel.launch(stream_of(result), result.dtype(), arguments, result.elements());
}

/// The gradients of the inputs. a, b and y are saved in this order, where a gradient reads them.
void run_backward(const PointwiseOperation& operation, bool is_binary, double alpha,
                  BackwardContext& context) {
  Tensor& dy = context.grad_output();
  for (const std::size_t input : {0u, 1u}) {
    if (input > (is_binary ? 1 : 0) || !context.needs_grad(input)) continue;
    const PointwiseKernel& kernel = operation.backward[input];
    const auto saved = [&](std::size_t index, Operand operand) -> const void* {
      return reads(kernel, operand) ? context.saved(index).raw() : nullptr;
    };
    PointwiseArguments arguments{.a = saved(0, Operand::a),
                                 .b = saved(1, Operand::b),
                                 .y = saved(2, Operand::y),
                                 .dy = dy.raw(),
                                 .alpha = alpha};
    const bool is_last = input == 1 || !is_binary || !context.needs_grad(1);
    if (kernel.launch == nullptr) {  // the gradient is dy: one input takes its memory, the other gets a copy
      if (is_last) {
        context.add_grad(input, std::move(dy));
      } else {
        context.add_grad(input, dy);
      }
    } else if (is_binary) {
      const GradTarget dx = context.grad_target(input);
      arguments.accumulate = dx.accumulate;
      run(kernel, arguments, dx.grad);
    } else {
      run(kernel, arguments, dy);
      context.add_grad(input, std::move(dy));
    }
  }
}

/// The operation `name` in the table of kernels/pointwise.cu.
Tensor pointwise(const char* name, const Tensor& a, const Tensor& b = {}, double alpha = 0) {
  check_floating(name, a);
  const PointwiseOperation& operation = pointwise_operation(name, a.device());
  const bool is_binary = reads(operation.forward, Operand::b);
  if (is_binary) check_same(name, a, b);
  const OperationScope span(name, {&a, &b});
  Tensor y = empty_like(a);
  run(operation.forward, {.a = a.raw(), .b = is_binary ? b.raw() : nullptr, .alpha = alpha}, y);
  if (Tape::records({&a, &b})) {
    const auto if_read = [&](Operand operand, const Tensor& tensor) {
      const bool is_read = (a.requires_grad() && reads(operation.backward[0], operand)) ||
                           (b.requires_grad() && reads(operation.backward[1], operand));
      return is_read ? tensor : Tensor();
    };
    const std::vector<Tensor> inputs = is_binary ? std::vector{a, b} : std::vector{a};
    Tape::current().record(name, inputs, y,
                           {if_read(Operand::a, a), if_read(Operand::b, b), if_read(Operand::y, y)},
                           [&operation, is_binary, alpha](BackwardContext& context) {
                             run_backward(operation, is_binary, alpha, context);
                           });
  }
  return y;
}

}  // namespace

// The operations, each with its row in kernels/pointwise.cu.

Tensor add(const Tensor& a, const Tensor& b) {
  return pointwise("add", a, b);
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  return pointwise("multiply", a, b);
}

Tensor exp(const Tensor& x) {
  return pointwise("exp", x);
}

Tensor gelu(const Tensor& x) {
  return pointwise("gelu", x);
}

Tensor gelu_tanh(const Tensor& x) {
  return pointwise("gelu_tanh", x);
}

Tensor silu(const Tensor& x) {
  return pointwise("silu", x);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  return pointwise("swiglu", gate, up);
}

Tensor scale(const Tensor& x, double alpha) {
  return pointwise("scale", x, {}, alpha);
}

}  // namespace ringtape
