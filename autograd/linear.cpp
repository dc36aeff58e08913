#include "autograd/arguments.h"
#include "autograd/low_precision.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/bias.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"

namespace ringtape {
namespace {

/// The sizes of one linear layer: x [rows, in], weight [out, in], y [rows, out].
struct LinearSizes {
  std::int64_t rows, in, out;
  /// Of each of the three products.
  std::int64_t flops() const { return 2 * rows * in * out; }
};

void forward(const LinearSizes& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Tensor& y) {
  add_work({.flops = s.flops(), .bytes = bytes_of({&x, &weight, &bias, &y})});
  GemmArgs args{.m = s.rows, .n = s.out, .k = s.in, .a = x.raw(), .b = weight.raw(), .c = y.raw()};
  args.transpose_b = true;
  args.dtype = args.out_dtype = x.dtype();
  if (bias.defined()) args.bias = bias.raw();
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

/// dweight (+)= dy^T x
void weight_gradient(const LinearSizes& s, const Tensor& dy, const Tensor& x, const GradTarget& dweight) {
  add_work({.flops = s.flops(), .bytes = bytes_of({&dy, &x}) + bytes_of(dweight)});
  GemmArgs args{.m = s.out, .n = s.in, .k = s.rows, .a = dy.raw(), .b = x.raw(), .c = dweight.grad.raw()};
  args.transpose_a = true;
  args.dtype = dy.dtype();
  args.out_dtype = dweight.grad.dtype();
  args.beta = dweight.accumulate ? 1 : 0;
  gemm(stream_of(dy), args);
}

/// dbias (+)= column sums of dy, in dbias's dtype: that of dy or, as parameters need, f32.
void bias_gradient(const LinearSizes& s, const Tensor& dy, const GradTarget& dbias) {
  add_work({.flops = dy.elements(), .bytes = bytes_of({&dy}) + bytes_of(dbias)});
  sum_dim(stream_of(dy), dy.dtype(), dy.raw(), std::int64_t{1}, s.rows, s.out, 1.0, dbias.grad.dtype(),
          dbias.grad.raw(), dbias.accumulate);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& given_weight, const Tensor& given_bias) {
  check_floating("linear", x);
  const OperationScope span("linear", {&x, &given_weight, &given_bias});
  const Tensor weight = in_dtype(given_weight, x.dtype(), "linear");
  const Tensor bias = in_dtype(given_bias, x.dtype(), "linear");
  check_same_kind("linear", x, weight);
  check(weight.dims() == 2 && x.dims() >= 1 && x.size(-1) == weight.size(1),
        "linear: input {} does not fit weight {}: expected a last dimension of the weight's second size",
        describe(x), describe(weight));
  const bool has_bias = bias.defined();
  if (has_bias) {
    check_same_kind("linear", x, bias);
    check(bias.shape() == Shape{weight.size(0)},
          "linear: bias {} does not fit weight {}: expected shape [{}]", describe(bias), describe(weight),
          weight.size(0));
  }
  const LinearSizes sizes{x.shape().without(-1).elements(), weight.size(1), weight.size(0)};
  Tensor y = empty(x.shape().with(-1, sizes.out), x.dtype(), x.device());
  forward(sizes, x, weight, bias, y);

  if (Tape::records({&x, &weight, &bias})) {
    // dweight reads the input, and dx reads the weight. A tensor that no gradient reads is not saved.
    std::vector<Tensor> saved(2);
    if (weight.requires_grad()) saved[0] = x;
    if (x.requires_grad()) saved[1] = weight;
    std::vector<Tensor> inputs = {x, given_weight};
    if (has_bias) inputs.push_back(given_bias);
    Tape::current().record("linear", inputs, y, saved, [sizes, has_bias](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      if (context.needs_grad(0)) input_gradient(sizes, dy, context.saved(1), context.grad_target(0));
      if (context.needs_grad(1)) weight_gradient(sizes, dy, context.saved(0), context.grad_target(1));
      if (has_bias && context.needs_grad(2)) bias_gradient(sizes, dy, context.grad_target(2));
    });
  }
  return y;
}

}  // namespace ringtape
