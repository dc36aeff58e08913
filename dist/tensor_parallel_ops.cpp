#include "dist/tensor_parallel_ops.h"

#include <algorithm>
#include <utility>

#include "autograd/arguments.h"
#include "autograd/invalid_index.h"
#include "autograd/low_precision.h"
#include "autograd/operation_scope.h"
#include "autograd/tape.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy_shard.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"

namespace ringtape {
namespace {

CrossEntropyShard problem_of(const Tensor& logits, const Tensor& targets, std::int64_t first,
                             std::int64_t classes, const CrossEntropyOptions& options) {
  check_floating("cross_entropy_of_parts", logits);
  check(logits.dims() == 2 && targets.defined() && targets.shape() == Shape{logits.size(0)} &&
            (targets.dtype() == DType::i32 || targets.dtype() == DType::i64) &&
            targets.device() == logits.device(),
        "cross_entropy_of_parts: logits {} do not fit targets {}: expected [N, part of C] and i32 or i64 [N]",
        describe(logits), describe(targets));
  check(first >= 0 && first + logits.size(1) <= classes && logits.size(1) > 0,
        "cross_entropy_of_parts: {} classes from {} on are no part of {}", logits.size(1), first, classes);
  check(options.reduction == Reduction::sum && options.label_smoothing == 0 && options.divisor > 0,
        "cross_entropy_of_parts: expected the sum with a divisor and no label smoothing");
  return {.dtype = logits.dtype(),
          .target_dtype = targets.dtype(),
          .targets = targets.raw(),
          .rows = logits.size(0),
          .classes = logits.size(1),
          .first_class = first,
          .all_classes = classes,
          .ignore_index = options.ignore_index,
          .divisor = options.divisor,
          .invalid_target = invalid_target_flag(logits.device())};
}

/// The number of elements of `added` that are used; they repeat over x.
std::int64_t repeated_elements(const Tensor& x, const Tensor& added) {
  const std::int64_t width = x.size(-1);
  if (!added.defined() || added.dims() == 1) {
    check(!added.defined() || added.elements() == width, "reduce_from_region: bias {} does not fit {}",
          describe(added), describe(x));
    return width;
  }
  check(added.dims() == 2 && x.dims() >= 2 && added.size(1) == width && x.size(-2) <= added.size(0),
        "reduce_from_region: positions {} do not fit {}", describe(added), describe(x));
  return x.size(-2) * width;
}

/// dadded (+)= the sum of the rows of dy [rows, columns]; + 0 for positions beyond x's.
void added_gradient(const Tensor& dy, std::int64_t rows, std::int64_t columns, const GradTarget& dadded) {
  const Tensor& to = dadded.grad;
  if (!dadded.accumulate) fill(stream_of(to), to.dtype(), to.raw(), to.elements(), 0.0);
  sum_dim(stream_of(dy), dy.dtype(), dy.raw(), std::int64_t{1}, rows, columns, 1.0, to.dtype(), to.raw(),
          true);
}

}  // namespace

Tensor copy_to_region(const Tensor& x, const std::shared_ptr<Communicator>& comm) {
  if (comm->size() == 1 || !Tape::records({&x})) return x;
  Tensor y = x.alias(x.shape());
  Tape::current().record("copy_to_region", {x}, y, {}, [comm](BackwardContext& context) {
    Tensor& dy = context.grad_output();
    comm->all_reduce(dy, ReduceOp::sum).wait();
    context.add_grad(0, std::move(dy));
  });
  return y;
}

Tensor reduce_from_region(const Tensor& x, const Tensor& given, const std::shared_ptr<Communicator>& comm) {
  const OperationScope span("reduce_from_region", {&x, &given});
  const Tensor added = in_dtype(given, x.dtype(), "reduce_from_region");
  const std::int64_t columns = repeated_elements(x, added),
                     rows = x.elements() / std::max<std::int64_t>(columns, 1);
  comm->all_reduce(x, ReduceOp::sum).wait();
  if (added.defined()) bias_add(stream_of(x), x.dtype(), added.raw(), x.raw(), rows, columns, columns);
  Tensor y = x.alias(x.shape());
  if (!Tape::records({&x, &given})) return y;
  std::vector<Tensor> inputs = {x};
  if (added.defined()) inputs.push_back(given);
  Tape::current().record("reduce_from_region", inputs, y, {},
                         [rows, columns, adds = added.defined()](BackwardContext& context) {
                           Tensor& dy = context.grad_output();
                           if (adds && context.needs_grad(1))
                             added_gradient(dy, rows, columns, context.grad_target(1));
                           if (context.needs_grad(0)) context.add_grad(0, std::move(dy));
                         });
  return y;
}

Tensor cross_entropy_of_parts(Tensor logits, const Tensor& targets, std::int64_t first, std::int64_t classes,
                              const CrossEntropyOptions& options, const std::shared_ptr<Communicator>& comm) {
  const CrossEntropyShard problem = problem_of(logits, targets, first, classes, options);
  const OperationScope span("cross_entropy_of_parts", {&logits, &targets});
  const DType dtype = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Device device = logits.device();
  const Tensor own = empty({problem.rows, 3}, dtype, device);
  cross_entropy_shard_statistics(stream_of(logits), problem, logits.raw(), own.raw());
  const Tensor all = empty({comm->size(), problem.rows, 3}, dtype, device);
  comm->all_gather(own, all).wait();
  const Tensor stats = empty({problem.rows, 2}, dtype, device);
  Tensor loss = empty({}, dtype, device);
  cross_entropy_shard_loss(stream_of(logits), problem, all.raw(), comm->size(), stats.raw(), loss.raw());
  if (Tape::records({&logits})) {
    const auto backward = [problem](BackwardContext& context) {
      const Tensor& x = context.saved(0);
      context.saved(1);  // the targets must not have changed
      const GradTarget dx = context.grad_target(0);
      cross_entropy_shard_backward(stream_of(x), problem, x.raw(), context.saved(2).raw(),
                                   context.grad_output().raw(), dx.grad.raw(), dx.accumulate);
    };
    Tape::current().record("cross_entropy_of_parts", {logits}, loss, {logits, targets, stats}, backward);
  }
  if (device.is_cpu()) check_indices(device);
  return loss;
}

}  // namespace ringtape
