#include "kernels/embedding.h"
#include "autograd/arguments.h"
#include "autograd/invalid_index.h"
#include "autograd/low_precision.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"

namespace ringtape {
namespace {

void set_zero(const Tensor& x) {
  fill(stream_of(x), x.dtype(), x.raw(), x.elements(), 0.0);
}

/// dweight (+)= the rows of dy, each to its token
void weight_gradient(const EmbeddingProblem& problem, const Tensor& dy, const GradTarget& dweight) {
  add_work({.flops = dy.elements(),
            .bytes = 3 * bytes_of({&dy}) + (dweight.accumulate ? 0 : bytes_of({&dweight.grad}))});
  const bool is_16_bit = size_of(dweight.grad.dtype()) == 2;
  const Tensor sums =
      is_16_bit ? zeros(dweight.grad.shape(), DType::f32, dweight.grad.device()) : dweight.grad;
  if (!is_16_bit && !dweight.accumulate) set_zero(sums);
  const Tensor workspace = empty({embedding_workspace(problem.rows)}, DType::i64, dy.device());
  embedding_backward(stream_of(dy), dy.dtype(), problem, dy.raw(), workspace.raw(), sums.raw());
  if (is_16_bit) {
    cast(stream_of(dy), sums.dtype(), sums.raw(), dweight.grad.dtype(), dweight.grad.raw(), sums.elements(),
         dweight.accumulate);
  }
}

/// dpositions (+)= dy summed over the sequences
void position_gradient(const EmbeddingProblem& problem, const Tensor& dy, const GradTarget& dpositions) {
  add_work({.flops = dy.elements(), .bytes = bytes_of({&dy}) + bytes_of(dpositions)});
  if (!dpositions.accumulate) set_zero(dpositions.grad);
  const Tensor used =
      dpositions.grad.alias({problem.sequence, problem.columns}, problem.first_position * problem.columns);
  if (used.elements() == 0) return;
  const std::int64_t sequences = problem.rows / problem.sequence;
  sum_dim(stream_of(dy), dy.dtype(), dy.raw(), std::int64_t{1}, sequences, used.elements(), 1.0, used.dtype(),
          used.raw(), true);
}

}  // namespace

Tensor embedding(const Tensor& tokens, const Tensor& given_weight, const Tensor& given_positions,
                 std::int64_t first_position, const TablePart& part) {
  check_floating("embedding", given_weight);
  check(tokens.defined() && (tokens.dtype() == DType::i32 || tokens.dtype() == DType::i64),
        "embedding: tokens must be i32 or i64, found {}", describe(tokens));
  check(given_weight.dims() == 2 && tokens.device() == given_weight.device() && tokens.dims() >= 1 &&
            tokens.dims() < Shape::kMaxDims,
        "embedding: expected tokens [.., T] and a weight [V, C] on one device, found {} and {}",
        describe(tokens), describe(given_weight));
  check(tokens.elements() <= kMaxEmbeddingRows && given_weight.size(0) <= kMaxEmbeddingRows,
        "embedding: expected at most {} tokens, and rows of the weight, found {} and {}", kMaxEmbeddingRows,
        tokens.elements(), given_weight.size(0));
  const OperationScope span("embedding", {&tokens, &given_weight, &given_positions});
  const DType dtype = compute_dtype_of(given_weight);
  const Tensor weight = in_dtype(given_weight, dtype, "embedding");
  const Tensor positions = in_dtype(given_positions, dtype, "embedding");
  EmbeddingProblem problem{.token_dtype = tokens.dtype(),
                           .tokens = tokens.raw(),
                           .rows = tokens.elements(),
                           .sequence = tokens.size(-1),
                           .first_position = first_position,
                           .vocabulary = weight.size(0),
                           .columns = weight.size(1),
                           .first_token = part.first_token,
                           .all_tokens = part.all_tokens};
  const bool has_positions = positions.defined();
  if (has_positions) {
    check_same_kind("embedding", weight, positions);
    check(positions.dims() == 2 && positions.size(1) == problem.columns,
          "embedding: positions {} do not fit weight {}: expected [P, {}]", describe(positions),
          describe(weight), problem.columns);
    check(first_position >= 0 && first_position <= positions.size(0) - problem.sequence,
          "embedding: {} tokens from position {} on are beyond the {} positions", problem.sequence,
          first_position, positions.size(0));
  }
  Tensor y = empty(tokens.shape().inserted(tokens.dims(), problem.columns), dtype, tokens.device());
  add_work({.flops = has_positions ? y.elements() : 0,
            .bytes = (has_positions ? 3 : 2) * bytes_of({&y}) + bytes_of({&tokens})});
  embedding_forward(
      stream_of(y), dtype, problem, weight.raw(), has_positions ? positions.raw() : nullptr, y.raw(),
      invalid_index_flag("embedding: token number {} is outside of [0, vocabulary)", y.device()));
  if (y.device().is_cpu()) check_indices(y.device());

  if (Tape::records({&given_weight, &given_positions})) {
    std::vector<Tensor> inputs = {given_weight};
    if (has_positions) inputs.push_back(given_positions);
    Tape::current().record("embedding", inputs, y, {tokens},
                           [problem, has_positions](BackwardContext& context) {
                             context.saved(0);  // throws if the tokens have changed
                             const Tensor& dy = context.grad_output();
                             if (context.needs_grad(0)) weight_gradient(problem, dy, context.grad_target(0));
                             if (has_positions && context.needs_grad(1)) {
                               position_gradient(problem, dy, context.grad_target(1));
                             }
                           });
  }
  return y;
}

}  // namespace ringtape
