#include "dist/sequence_parallel_ops.h"

#include "autograd/arguments.h"
#include "autograd/low_precision.h"
#include "autograd/operation_scope.h"
#include "autograd/tape.h"
#include "core/divisors.h"
#include "kernels/bias.h"
#include "kernels/copy_rows.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"

namespace ringtape {
namespace {

/// The address of element `first`.
void* element(const Tensor& tensor, std::int64_t first) {
  return static_cast<std::byte*>(tensor.raw()) + first * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

/// Copies between [B, T, C], sequence by sequence, and [R, B, T / R, C], part by part.
void copy_parts(const Tensor& by_sequence, const Tensor& by_rank, bool to_ranks) {
  const std::int64_t batch = by_sequence.size(0), ranks = by_rank.size(0);
  const std::int64_t row = by_sequence.size(1) * by_sequence.size(2), part = row / ranks;
  for (std::int64_t r = 0; r < ranks; ++r) {
    void* const in_sequences = element(by_sequence, r * part);
    void* const of_rank = element(by_rank, r * batch * part);
    const Stream stream = stream_of(by_rank);
    if (to_ranks) {
      copy_rows(stream, by_rank.dtype(), in_sequences, row, of_rank, part, batch, part, false);
    } else {
      copy_rows(stream, by_rank.dtype(), of_rank, part, in_sequences, row, batch, part, false);
    }
  }
}

void check_tokens(const char* operation, const Tensor& x) {
  check_floating(operation, x);
  check(x.dims() == 3, "--sequence-parallel: {}: expected tokens [B, T, C], found {}", operation,
        describe(x));
}

Tensor gathered(const Tensor& x, Communicator& comm) {
  const Tensor by_rank = empty({comm.size(), x.size(0), x.size(1) * x.size(2)}, x.dtype(), x.device());
  comm.all_gather(x, by_rank).wait();
  const Tensor all = empty({x.size(0), comm.size() * x.size(1), x.size(2)}, x.dtype(), x.device());
  copy_parts(all, by_rank, false);
  return all;
}

Tensor scattered(const Tensor& x, Communicator& comm) {
  const Tensor by_rank =
      empty({comm.size(), x.size(0), x.size(1) / comm.size() * x.size(2)}, x.dtype(), x.device());
  copy_parts(x, by_rank, true);
  const Tensor own = empty({x.size(0), x.size(1) / comm.size(), x.size(2)}, x.dtype(), x.device());
  comm.reduce_scatter(by_rank, own, ReduceOp::sum).wait();
  return own;
}

}  // namespace

Tensor all_gather_tokens(const Tensor& x, const std::shared_ptr<Communicator>& comm) {
  check_tokens("all_gather_tokens", x);
  const OperationScope span("all_gather_tokens", {&x});
  Tensor y = gathered(x, *comm);
  if (Tape::records({&x})) {
    Tape::current().record("all_gather_tokens", {x}, y, {}, [comm](BackwardContext& context) {
      context.add_grad(0, scattered(context.grad_output(), *comm));
    });
  }
  return y;
}

Tensor reduce_scatter_tokens(const Tensor& x, const Tensor& given,
                             const std::shared_ptr<Communicator>& comm) {
  check_tokens("reduce_scatter_tokens", x);
  check(x.size(1) % comm->size() == 0,
        "--sequence-parallel: {} ranks do not divide sequences of {} tokens, the nearest that they divide is "
        "{}",
        comm->size(), x.size(1), nearest_multiple(x.size(1), comm->size()));
  const OperationScope span("reduce_scatter_tokens", {&x, &given});
  const Tensor added = in_dtype(given, x.dtype(), "reduce_scatter_tokens");
  Tensor y = scattered(x, *comm);
  const std::int64_t width = x.size(2);
  const bool is_bias = added.defined() && added.dims() == 1;
  check(!added.defined() || (added.size(-1) == width && (is_bias || added.size(0) >= x.size(1))),
        "reduce_scatter_tokens: {} cannot be added to {}", describe(added), describe(x));
  // A bias repeats with every token, positions with every sequence; this rank's positions begin at `first`.
  const std::int64_t columns = is_bias ? width : y.size(1) * width, rows = y.elements() / columns;
  const std::int64_t first = is_bias ? 0 : comm->rank() * columns;
  if (added.defined())
    bias_add(stream_of(y), y.dtype(), element(added, first), y.raw(), rows, columns, columns);
  if (!Tape::records({&x, &given})) return y;
  std::vector<Tensor> inputs = {x};
  if (added.defined()) inputs.push_back(given);
  const auto backward = [comm, rows, columns, first, adds = added.defined()](BackwardContext& context) {
    const Tensor& dy = context.grad_output();
    if (adds && context.needs_grad(1)) {
      const GradTarget target = context.grad_target(1);
      const Tensor& to = target.grad;
      if (!target.accumulate) fill(stream_of(to), to.dtype(), to.raw(), to.elements(), 0.0);
      sum_dim(stream_of(dy), dy.dtype(), dy.raw(), std::int64_t{1}, rows, columns, 1.0, to.dtype(),
              element(to, first), true);
    }
    if (context.needs_grad(0)) context.add_grad(0, gathered(dy, *comm));
  };
  Tape::current().record("reduce_scatter_tokens", inputs, y, {}, backward);
  return y;
}

}  // namespace ringtape
