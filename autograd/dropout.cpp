#include <utility>

#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/capture.h"
#include "core/ceil_div.h"
#include "core/random.h"
#include "kernels/dropout.h"

namespace ringtape {

Tensor dropout(const Tensor& x, double p) {
  check_floating("dropout", x);
  check(p >= 0 && p < 1, "dropout: p must be at least 0 and below 1, found {}", p);
  if (p == 0) return x;
  forbid_in_capture("the mask of dropout is drawn, which a replay would repeat");
  const OperationScope span("dropout", {&x});
  Tensor y = empty_like(x);
  const auto counters = static_cast<std::uint64_t>(ceil_div(x.elements(), 4));
  const std::uint64_t seed = default_generator().seed, offset = default_generator().take(counters);
  add_work({.flops = x.elements(), .bytes = bytes_of({&x, &y})});
  dropout(stream_of(x), x.dtype(), x.raw(), y.raw(), x.elements(), p, seed, offset);
  if (Tape::records({&x})) {
    Tape::current().record("dropout", {x}, y, {}, [p, seed, offset](BackwardContext& context) {
      Tensor& dy = context.grad_output();
      add_work({.flops = dy.elements(), .bytes = 2 * bytes_of({&dy})});
      dropout(stream_of(dy), dy.dtype(), dy.raw(), dy.raw(), dy.elements(), p, seed, offset);
      context.add_grad(0, std::move(dy));
    });
  }
  return y;
}

Tensor dropout_of_tokens(const Tensor& x, double p, const std::vector<TokenRun>& runs, std::int64_t tokens) {
  check_floating("dropout_of_tokens", x);
  check(p >= 0 && p < 1, "dropout: p must be at least 0 and below 1, found {}", p);
  std::int64_t own = 0;
  for (const TokenRun& run : runs) own += run.count;
  check(x.dims() == 3 && x.size(1) == own, "dropout_of_tokens: expected [B, {}, C], found {}", own,
        describe(x));
  if (p == 0) return x;
  const std::int64_t batch = x.size(0), width = x.size(2);
  check(batch == 1 || tokens * width % 4 == 0,
        "dropout: sequences of {} tokens of {} elements: expected a multiple of 4 elements", tokens, width);
  for (const TokenRun& run : runs) {
    check(run.first >= 0 && run.count >= 0 && run.first + run.count <= tokens,
          "dropout: {} tokens from token {} on, expected tokens of a sequence of {}", run.count, run.first,
          tokens);
    check(run.first * width % 4 == 0 && run.count * width % 4 == 0,
          "dropout: {} tokens of {} elements from token {} on, a part of a sequence: expected multiples of 4 "
          "elements",
          run.count, width, run.first);
  }
  forbid_in_capture("the mask of dropout is drawn, which a replay would repeat");
  const OperationScope span("dropout_of_tokens", {&x});
  const auto counters = static_cast<std::uint64_t>(ceil_div(batch * tokens * width, 4));
  const std::uint64_t seed = default_generator().seed, offset = default_generator().take(counters);
  const auto drop = [=](const Tensor& from, const Tensor& to) {
    std::int64_t done = 0;  // elements
    for (std::int64_t b = 0; b < batch; ++b) {
      for (const TokenRun& run : runs) {
        const std::int64_t elements = run.count * width;
        const auto before = static_cast<std::uint64_t>((b * tokens + run.first) * width);
        dropout(stream_of(to), to.dtype(), from.alias({elements}, done).raw(),
                to.alias({elements}, done).raw(), elements, p, seed, offset + before / 4);
        done += elements;
      }
    }
  };
  Tensor y = empty_like(x);
  add_work({.flops = x.elements(), .bytes = bytes_of({&x, &y})});
  drop(x, y);
  if (Tape::records({&x})) {
    Tape::current().record("dropout_of_tokens", {x}, y, {}, [drop](BackwardContext& context) {
      Tensor& dy = context.grad_output();
      add_work({.flops = dy.elements(), .bytes = 2 * bytes_of({&dy})});
      drop(dy, dy);
      context.add_grad(0, std::move(dy));
    });
  }
  return y;
}

}  // namespace ringtape
