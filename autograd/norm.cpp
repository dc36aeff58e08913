#include <utility>

#include "autograd/arguments.h"
#include "autograd/low_precision.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/memory.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"

namespace ringtape {
namespace {

/// One norm, its arguments checked.
struct NormCall {
  const char* operation;
  bool centred;  ///< layer_norm, else rms_norm
  double eps;
  Tensor x;  ///< the input; after forward() with a residual, their sum
  Tensor weight, bias;
  Tensor mean, rstd;
};

NormProblem problem_of(double eps, const Tensor& x, const Tensor& weight, const Tensor& mean,
                       const Tensor& rstd) {
  return {.dtype = x.dtype(),
          .rows = rstd.elements(),
          .columns = x.size(-1),
          .eps = eps,
          .weight = weight.raw(),
          .x = x.raw(),
          .mean = mean.defined() ? mean.raw() : nullptr,
          .rstd = rstd.raw()};
}

void check_parameter(const NormCall& norm, const char* name, const Tensor& parameter) {
  check_same_kind(norm.operation, norm.x, parameter);
  check(parameter.shape() == Shape{norm.x.size(-1)}, "{}: {} {} does not fit input {}: expected shape [{}]",
        norm.operation, name, describe(parameter), describe(norm.x), norm.x.size(-1));
}

NormCall norm_of(const char* operation, bool centred, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, double eps) {
  check_floating(operation, x);
  check(x.dims() >= 1 && x.size(-1) >= 1 && x.size(-1) <= kMaxNormColumns,
        "{}: expected a last dimension of 1 to {}, found {}", operation, kMaxNormColumns, describe(x));
  check(eps >= 0, "{}: eps must be at least 0, found {}", operation, eps);
  NormCall norm{.operation = operation,
                .centred = centred,
                .eps = eps,
                .x = x,
                .weight = in_dtype(weight, x.dtype(), operation),
                .bias = in_dtype(bias, x.dtype(), operation),
                .mean = {},
                .rstd = {}};
  check_parameter(norm, "weight", norm.weight);
  if (bias.defined()) check_parameter(norm, "bias", norm.bias);
  const DType sums = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  norm.rstd = empty(x.shape().without(-1), sums, x.device());
  if (centred) norm.mean = empty(norm.rstd.shape(), sums, x.device());
  return norm;
}

void* raw_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.raw() : nullptr;
}

/// The sum over the blocks of `partial` [blocks, columns] to the gradient of a parameter.
void add_partial(const Tensor& partial, const GradTarget& to) {
  const std::int64_t blocks = partial.size(0), columns = partial.size(1);
  if (size_of(to.grad.dtype()) > 2) {
    sum_dim(stream_of(partial), partial.dtype(), partial.raw(), std::int64_t{1}, blocks, columns, 1.0,
            to.grad.dtype(), to.grad.raw(), to.accumulate);
    return;
  }
  const Tensor total = empty({columns}, partial.dtype(), partial.device());
  sum_dim(stream_of(partial), partial.dtype(), partial.raw(), std::int64_t{1}, blocks, columns, 1.0,
          total.dtype(), total.raw(), false);
  cast(stream_of(total), total.dtype(), total.raw(), to.grad.dtype(), to.grad.raw(), columns, to.accumulate);
}

/// Inputs: x, weight and perhaps a bias. Saved: x, weight, mean (undefined for rms_norm), rstd.
void backward(BackwardContext& context, bool centred, double eps, bool has_bias) {
  const Tensor& x = context.saved(0);
  const Tensor& rstd = context.saved(3);
  const Tensor& dy = context.grad_output();
  const std::int64_t blocks = norm_backward_blocks(rstd.elements(), x.device().is_cuda());
  const auto partial = [&](bool needed) {
    const MemoryScope scope(MemoryCategory::workspace);
    return needed ? empty({blocks, x.size(-1)}, rstd.dtype(), x.device()) : Tensor();
  };
  const Tensor weight_partial = partial(context.needs_grad(1));
  const Tensor bias_partial = partial(has_bias && context.needs_grad(2));
  const GradTarget dx = context.needs_grad(0) ? context.grad_target(0) : GradTarget{{}, false};
  add_work({.flops = ((centred ? 12 : 9) + (has_bias ? 1 : 0)) * x.elements(),
            .bytes = bytes_of({&x, &dy, &weight_partial, &bias_partial}) +
                     (dx.grad.defined() ? bytes_of(dx) : 0)});
  norm_backward(stream_of(x),
                problem_of(eps, x, context.saved(1), centred ? context.saved(2) : Tensor(), rstd), dy.raw(),
                raw_or_null(dx.grad), dx.accumulate, blocks, raw_or_null(weight_partial),
                raw_or_null(bias_partial));
  if (weight_partial.defined()) add_partial(weight_partial, context.grad_target(1));
  if (bias_partial.defined()) add_partial(bias_partial, context.grad_target(2));
}

/// Writes y and the statistics; with a residual, norm.x becomes the sum.
Tensor forward(NormCall& norm, const Tensor& residual) {
  const Tensor x = norm.x;
  Tensor y = empty_like(x);
  const Tensor sum = residual.defined() ? empty_like(x) : Tensor();
  add_work({.flops = ((norm.centred ? 6 : 4) + (norm.bias.defined() ? 1 : 0) + (residual.defined() ? 1 : 0)) *
                     x.elements(),
            .bytes = bytes_of({&x, &residual, &sum, &y, &norm.weight, &norm.bias})});
  norm_forward(stream_of(x), problem_of(norm.eps, x, norm.weight, norm.mean, norm.rstd),
               raw_or_null(residual), raw_or_null(sum), raw_or_null(norm.bias), y.raw());
  if (sum.defined()) norm.x = sum;
  return y;
}

/// Records y = norm(norm.x).
void record(const NormCall& norm, const Tensor& weight, const Tensor& bias, Tensor& y) {
  if (!Tape::records({&norm.x, &weight, &bias})) return;
  std::vector<Tensor> inputs = {norm.x, weight};
  if (bias.defined()) inputs.push_back(bias);
  Tape::current().record(
      norm.centred ? "layer_norm" : "rms_norm", inputs, y, {norm.x, norm.weight, norm.mean, norm.rstd},
      [centred = norm.centred, eps = norm.eps, has_bias = bias.defined()](BackwardContext& context) {
        backward(context, centred, eps, has_bias);
      });
}

Tensor run(NormCall norm, const Tensor& weight, const Tensor& bias) {
  const OperationScope span(norm.operation, {&norm.x, &weight, &bias});
  Tensor y = forward(norm, {});
  record(norm, weight, bias, y);
  return y;
}

/// One kernel, two nodes of the tape: the gradients are those of add() and of the norm.
AddNorm run_with_residual(NormCall norm, const Tensor& residual, const Tensor& weight, const Tensor& bias) {
  const Tensor x = norm.x;
  check_same(norm.operation, x, residual);
  const OperationScope span(norm.operation, {&x, &residual, &weight, &bias});
  AddNorm result;
  result.normed = forward(norm, residual);
  result.sum = norm.x;
  if (Tape::records({&x, &residual})) {
    Tape::current().record("add", {x, residual}, result.sum, {}, [](BackwardContext& context) {
      Tensor& dy = context.grad_output();
      if (context.needs_grad(0) && context.needs_grad(1)) context.add_grad(0, dy);
      context.add_grad(context.needs_grad(1) ? 1 : 0, std::move(dy));
    });
  }
  norm.x = result.sum;
  record(norm, weight, bias, result.normed);
  return result;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return run(norm_of("layer_norm", true, x, weight, bias, eps), weight, bias);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return run(norm_of("rms_norm", false, x, weight, {}, eps), weight, {});
}

AddNorm add_layer_norm(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                       double eps) {
  return run_with_residual(norm_of("add_layer_norm", true, a, weight, bias, eps), b, weight, bias);
}

AddNorm add_rms_norm(const Tensor& a, const Tensor& b, const Tensor& weight, double eps) {
  return run_with_residual(norm_of("add_rms_norm", false, a, weight, {}, eps), b, weight, {});
}

}  // namespace ringtape
