#include <optional>

#include "autograd/arguments.h"
#include "autograd/low_precision.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "kernels/relu.h"

namespace ringtape {
namespace {

/// The sizes of one linear layer: x [rows, in], weight [out, in], y [rows, out].
struct LinearSizes {
  std::int64_t rows, in, out;
  /// Of each of the three products.
  std::int64_t flops() const { return 2 * rows * in * out; }
};

void forward(const LinearSizes& s, const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu,
             const Tensor& y) {
  add_work({.flops = s.flops(), .bytes = bytes_of({&x, &weight, &bias, &y})});
  GemmArgs args{.m = s.rows, .n = s.out, .k = s.in, .a = x.raw(), .b = weight.raw(), .c = y.raw()};
  args.transpose_b = true;
  args.dtype = args.out_dtype = x.dtype();
  if (bias.defined()) args.bias = bias.raw();
  args.relu = relu;
  gemm(stream_of(x), args);
}

/// dx (+)= dy weight
void input_gradient(const LinearSizes& s, const Tensor& dy, const Tensor& weight, const GradTarget& dx) {
  add_work({.flops = s.flops(), .bytes = bytes_of({&dy, &weight}) + bytes_of(dx)});
  GemmArgs args{.m = s.rows, .n = s.in, .k = s.out, .a = dy.raw(), .b = weight.raw(), .c = dx.grad.raw()};
  args.dtype = dy.dtype();
  args.out_dtype = dx.grad.dtype();
  args.beta = dx.accumulate ? 1 : 0;
  gemm(stream_of(dy), args);
}

/// dweight (+)= dy^T x, and with `dbias`, of dweight's dtype, dbias = column sums of dy.
void weight_gradient(const LinearSizes& s, const Tensor& dy, const Tensor& x, const GradTarget& dweight,
                     const GradTarget* dbias) {
  add_work({.flops = s.flops(), .bytes = bytes_of({&dy, &x}) + bytes_of(dweight)});
  GemmArgs args{.m = s.out, .n = s.in, .k = s.rows, .a = dy.raw(), .b = x.raw(), .c = dweight.grad.raw()};
  args.transpose_a = true;
  args.dtype = dy.dtype();
  args.out_dtype = dweight.grad.dtype();
  args.beta = dweight.accumulate ? 1 : 0;
  if (dbias != nullptr) {
    add_work({.flops = dy.elements(), .bytes = bytes_of({&dy}) + bytes_of(*dbias)});
    args.a_sums = dbias->grad.raw();
  }
  gemm(stream_of(dy), args);
}

/// dbias (+)= column sums of dy, in dbias's dtype: that of dy or, for parameters, f32.
void bias_gradient(const LinearSizes& s, const Tensor& dy, const GradTarget& dbias) {
  add_work({.flops = dy.elements(), .bytes = bytes_of({&dy}) + bytes_of(dbias)});
  sum_dim(stream_of(dy), dy.dtype(), dy.raw(), std::int64_t{1}, s.rows, s.out, 1.0, dbias.grad.dtype(),
          dbias.grad.raw(), dbias.accumulate);
}

/// dy = 0 where ReLU gave 0
void relu_gradient(const Tensor& y, const Tensor& dy) {
  add_work({.bytes = bytes_of({&y, &dy, &dy})});
  relu_backward(stream_of(dy), dy.dtype(), y.raw(), dy.raw(), dy.raw(), dy.elements(), false);
}

Tensor linear(const char* name, const Tensor& x, const Tensor& given_weight, const Tensor& given_bias,
              bool relu) {
  check_floating(name, x);
  const OperationScope span(name, {&x, &given_weight, &given_bias});
  const Tensor weight = in_dtype(given_weight, x.dtype(), name);
  const Tensor bias = in_dtype(given_bias, x.dtype(), name);
  check_same_kind(name, x, weight);
  check(weight.dims() == 2 && x.dims() >= 1 && x.size(-1) == weight.size(1),
        "{}: input {} does not fit weight {}: expected a last dimension of the weight's second size", name,
        describe(x), describe(weight));
  const bool has_bias = bias.defined();
  if (has_bias) {
    check_same_kind(name, x, bias);
    check(bias.shape() == Shape{weight.size(0)}, "{}: bias {} does not fit weight {}: expected shape [{}]",
          name, describe(bias), describe(weight), weight.size(0));
  }
  const LinearSizes sizes{x.shape().without(-1).elements(), weight.size(1), weight.size(0)};
  Tensor y = empty(x.shape().with(-1, sizes.out), x.dtype(), x.device());
  forward(sizes, x, weight, bias, relu, y);

  if (Tape::records({&x, &weight, &bias})) {
    // dweight reads the input, dx the weight, and ReLU's gradient the result. A tensor that no gradient reads
    // is not saved.
    std::vector<Tensor> saved(relu ? 3 : 2);
    if (weight.requires_grad()) saved[0] = x;
    if (x.requires_grad()) saved[1] = weight;
    if (relu) saved[2] = y;
    std::vector<Tensor> inputs = {x, given_weight};
    if (has_bias) inputs.push_back(given_bias);
    Tape::current().record(name, inputs, y, saved, [sizes, has_bias, relu](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      if (relu) relu_gradient(context.take_saved(2), dy);
      if (context.needs_grad(0)) input_gradient(sizes, dy, context.saved(1), context.grad_target(0));
      std::optional<GradTarget> dweight, dbias;
      if (context.needs_grad(1)) dweight = context.grad_target(1);
      if (has_bias && context.needs_grad(2)) dbias = context.grad_target(2);
      // A product of cuBLAS can write the weight's gradient and the bias's first gradient in one launch.
      const bool together =
          dweight && dbias && !dbias->accumulate && dbias->grad.dtype() == dweight->grad.dtype();
      if (dweight) weight_gradient(sizes, dy, context.saved(0), *dweight, together ? &*dbias : nullptr);
      if (dbias && !together) bias_gradient(sizes, dy, *dbias);
    });
  }
  return y;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear("linear", x, weight, bias, false);
}

Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear("linear_relu", x, weight, bias, true);
}

}  // namespace ringtape
