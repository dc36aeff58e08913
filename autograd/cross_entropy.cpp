#include "kernels/cross_entropy.h"
#include "autograd/arguments.h"
#include "autograd/invalid_index.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace ringtape {
namespace {

CrossEntropyProblem problem_of(const char* operation, const Tensor& logits, const Tensor& targets,
                               const CrossEntropyOptions& options) {
  check_floating(operation, logits);
  check(logits.dims() == 2 && targets.defined() && targets.shape() == Shape{logits.size(0)} &&
            targets.device() == logits.device(),
        "{}: logits {} do not fit targets {}: expected [N, C] and [N] on one device", operation,
        describe(logits), describe(targets));
  check(logits.size(1) > 0, "{}: logits {} have no classes", operation, describe(logits));
  check(logits.size(1) <= std::int64_t{1} << 30, "{}: logits {} have more than 2^30 classes", operation,
        describe(logits));
  check(targets.dtype() == DType::i64 || targets.dtype() == DType::i32,
        "{}: targets must be i64 or i32, found {}", operation, describe(targets));
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1,
        "cross_entropy: label_smoothing must be in [0, 1], found {}", options.label_smoothing);
  check(options.divisor > 0, "cross_entropy: divisor must be above 0, found {}", options.divisor);
  CrossEntropyProblem problem{};
  problem.dtype = logits.dtype();
  problem.target_dtype = targets.dtype();
  problem.targets = targets.raw();
  problem.rows = logits.size(0);
  problem.classes = logits.size(1);
  problem.ignore_index = options.ignore_index;
  problem.label_smoothing = options.label_smoothing;
  problem.host_divisor = options.divisor;
  problem.invalid_target = invalid_target_flag(logits.device());
  return problem;
}

/// The number of non-ignored targets, on the device, for the mean; undefined for the sum.
Tensor count_of(const Tensor& targets, const CrossEntropyOptions& options) {
  if (options.reduction == Reduction::sum) return {};
  const Tensor count = empty({}, DType::f32, targets.device());
  count_targets(stream_of(targets), targets.dtype(), targets.raw(), targets.elements(), options.ignore_index,
                count.data<float>());
  return count;
}

/// Forward and backward at once; the gradient overwrites the logits.
void fused(const CrossEntropyProblem& problem, Tensor& logits, Tensor& loss) {
  // 3 FLOPs a logit: subtract the row's largest, add to the sum, multiply by the inverse of the sum.
  add_work({.flops = 3 * logits.elements(), .bytes = 2 * bytes_of({&logits}) + bytes_of({&loss})});
  cross_entropy_fused(stream_of(logits), problem, logits.raw(), loss.raw());
  logits.bump_version();
  Tape::current().record("cross_entropy", {logits}, loss, {logits}, [](BackwardContext& context) {
    Tensor dlogits = context.saved(0);
    if (context.grad_output_is_one()) return context.add_grad(0, std::move(dlogits));
    add_work({.flops = dlogits.elements(), .bytes = 2 * bytes_of({&dlogits})});
    scale_by_device(stream_of(dlogits), dlogits.dtype(), dlogits.raw(), dlogits.elements(),
                    context.grad_output().data<float>());
    context.add_grad(0, std::move(dlogits));
  });
}

/// The forward, and a node for the backward. The node keeps the tensors that `problem` points to.
void in_two_passes(CrossEntropyProblem problem, const Tensor& logits, const Tensor& targets,
                   const Tensor& count, Tensor& loss) {
  const Tensor stats = empty({problem.rows, 2}, loss.dtype(), logits.device());
  add_work({.flops = 2 * logits.elements(), .bytes = bytes_of({&logits, &stats, &loss})});
  cross_entropy_forward(stream_of(logits), problem, logits.raw(), stats.raw(), nullptr, loss.raw());
  if (!Tape::records({&logits})) return;
  std::vector<Tensor> saved = {logits, targets, stats};
  if (count.defined()) saved.push_back(count);
  Tape::current().record("cross_entropy", {logits}, loss, saved, [problem](BackwardContext& context) {
    const Tensor& x = context.saved(0);
    context.saved(1);  // the targets must not have changed
    const GradTarget dx = context.grad_target(0);
    add_work({.flops = 2 * x.elements(), .bytes = bytes_of({&x, &context.saved(2)}) + bytes_of(dx)});
    const void* const dloss = context.grad_output_is_one() ? nullptr : context.grad_output().raw();
    cross_entropy_backward(stream_of(x), problem, x.raw(), context.saved(2).raw(), dloss, dx.grad.raw(),
                           dx.accumulate);
  });
}

/// Counts the correct predictions in `correct`, unless it is undefined.
Tensor cross_entropy(Tensor&& logits, const Tensor& targets, const CrossEntropyOptions& options,
                     const Tensor& correct) {
  CrossEntropyProblem problem = problem_of("cross_entropy", logits, targets, options);
  if (correct.defined()) problem.correct = correct.data<float>();
  const OperationScope span("cross_entropy", {&logits, &targets});
  add_work({.bytes = bytes_of({&targets})});
  const Tensor count = count_of(targets, options);
  if (count.defined()) problem.divisor = count.data<float>();
  Tensor loss = empty({}, logits.dtype() == DType::f64 ? DType::f64 : DType::f32, logits.device());

  const bool owned = logits.storage().use_count() == 1 && logits.requires_grad() && !logits.autograd->is_leaf;
  // The fused form rounds the gradient before the upstream gradient multiplies it. In f16 that would lose the
  // small gradients which a loss scale preserves.
  const bool fits = logits.dtype() == DType::f32 || logits.dtype() == DType::bf16;
  if (owned && fits && Tape::records({&logits})) {
    fused(problem, logits, loss);
  } else {
    in_two_passes(problem, logits, targets, count, loss);
  }
  if (loss.device().is_cpu()) check_indices(loss.device());  // costs nothing here: the kernels have run
  return loss;
}

}  // namespace

Tensor cross_entropy(Tensor logits, const Tensor& targets, const CrossEntropyOptions& options) {
  return cross_entropy(std::move(logits), targets, options, Tensor());
}

LossAndCorrect cross_entropy_and_correct(Tensor logits, const Tensor& targets,
                                         const CrossEntropyOptions& options) {
  const Tensor correct = empty({}, DType::f32, logits.device());
  Tensor loss = cross_entropy(std::move(logits), targets, options, correct);
  return {std::move(loss), correct};
}

Tensor count_correct(const Tensor& logits, const Tensor& targets) {
  const CrossEntropyProblem problem = problem_of("count_correct", logits, targets, {});
  const OperationScope span("count_correct", {&logits, &targets});
  Tensor correct = empty({}, DType::f32, logits.device());
  add_work({.bytes = bytes_of({&logits, &targets, &correct})});
  count_correct(stream_of(logits), problem, logits.raw(), correct.data<float>(), false);
  return correct;
}

}  // namespace ringtape
