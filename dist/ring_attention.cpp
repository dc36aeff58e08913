#include "dist/ring_attention.h"

#include <utility>

#include "autograd/arguments.h"
#include "autograd/attention_heads.h"
#include "autograd/creation.h"
#include "autograd/operation_scope.h"
#include "autograd/tape.h"
#include "core/divisors.h"
#include "kernels/copy_rows.h"
#include "kernels/elementwise.h"

namespace ringtape {
namespace {

/// The keys and values of a rank's tokens, or their gradients: [B, T, 2 kv_heads D], as in a KVCache.
using Shard = Tensor;

/// A call of ring_attention().
struct AttentionRing {
  AttentionHeads sizes;
  std::shared_ptr<Communicator> comm;

  int ranks() const { return comm->size(); }
  std::int64_t chunk_tokens() const { return sizes.tokens / 2; }
  std::int64_t kv_columns() const { return 2 * sizes.kv_heads * sizes.width; }
  /// The rank whose shard this rank has in step `step`.
  int owner(int step) const { return (comm->rank() + ranks() - step) % ranks(); }
  /// FLOPs of one matrix product over all steps: of 2 ranks() + 1 pairs of chunks two are half masked.
  std::int64_t flops() const {
    const std::int64_t n = chunk_tokens();
    return 2 * sizes.batch * sizes.heads * sizes.width * n * ((2 * ranks() - 1) * n + n + 1);
  }

  Shard empty_shard(const Tensor& qkv) const {
    return empty({sizes.batch, sizes.tokens, kv_columns()}, qkv.dtype(), qkv.device());
  }
  Shard shard_of(const Tensor& qkv) const {
    Shard shard = empty_shard(qkv);
    copy_rows(stream_of(qkv), qkv.dtype(), element_of(qkv, sizes.heads * sizes.width), sizes.row(),
              shard.raw(), kv_columns(), sizes.batch * sizes.tokens, kv_columns(), false);
    return shard;
  }
  /// Sends `from` to the next rank, and receives the previous one's as `to`.
  Work pass_on(const Shard& from, const Shard& to) const {
    const int next = (comm->rank() + 1) % ranks(), previous = owner(1);
    return comm->exchange({{from, next}}, {{to, previous}});
  }

  /// Chunk `half`, 0 or 1, of an operand.
  AttentionOperand chunk(AttentionOperand operand, int half, DType dtype) const {
    const std::int64_t elements = half * chunk_tokens() * operand.token;
    operand.data =
        static_cast<std::byte*>(operand.data) + elements * static_cast<std::int64_t>(size_of(dtype));
    return operand;
  }
  AttentionOperand keys(const Shard& shard, int half) const {
    return chunk(sizes.operand(shard, kv_columns(), 0), half, shard.dtype());
  }
  AttentionOperand values(const Shard& shard, int half) const {
    return chunk(sizes.operand(shard, kv_columns(), sizes.kv_heads), half, shard.dtype());
  }
  /// Statistics are [2, B, heads, T / 2].
  void* stats(const Tensor& tensor, int half) const {
    return element_of(tensor, half * tensor.elements() / 2);
  }

  /// Calls body(args, half of the queries, half of the keys) for each pair of this rank's chunks of queries
  /// and the shard's chunks of keys, unless all the keys come later: two pairs, three for the rank's own
  /// shard.
  template <class Body>
  void for_each_pair(int step, const Tensor& qkv, const Shard& shard, const Tensor& out, const Tensor& lse,
                     const Body& body) const {
    const ContextPart part{comm->rank(), ranks(), nullptr};
    for (const int own : {0, 1}) {
      for (const int other : {0, 1}) {
        const int queries = part.chunk(own), keys_of = part.chunk(owner(step), other);
        if (keys_of > queries) continue;
        AttentionArgs args = sizes.args(qkv, out, lse);
        args.queries = args.keys = chunk_tokens();
        args.q = chunk(args.q, own, qkv.dtype());
        args.k = keys(shard, other);
        args.v = values(shard, other);
        args.out = chunk(args.out, own, out.dtype());
        args.lse = stats(lse, own);
        args.piece = {.is_one = true,
                      .causal = keys_of == queries,
                      .resumes = step > 0 || other > 0,
                      .tokens = 2 * ranks() * chunk_tokens(),
                      .first_query = queries * chunk_tokens(),
                      .first_key = keys_of * chunk_tokens()};
        body(args, own, other);
      }
    }
  }
};

void forward(const AttentionRing& ring, const Tensor& qkv, const Tensor& out, const Tensor& lse) {
  Shard current = ring.shard_of(qkv), next = ring.empty_shard(qkv);
  for (int step = 0; step < ring.ranks(); ++step) {
    Work arrives;
    if (step + 1 < ring.ranks()) arrives = ring.pass_on(current, next);
    ring.for_each_pair(step, qkv, current, out, lse,
                       [&](const AttentionArgs& args, int, int) { attention_forward(stream_of(qkv), args); });
    arrives.wait();
    std::swap(current, next);
  }
}

void backward(const AttentionRing& ring, BackwardContext& context) {
  const AttentionHeads& sizes = ring.sizes;
  const Tensor &qkv = context.saved(0), &out = context.saved(1), &lse = context.saved(2);
  const Tensor& dout = context.grad_output();
  const GradTarget dqkv = context.grad_target(0);
  add_work({.flops = 5 * ring.flops(), .bytes = bytes_of({&qkv, &out, &lse, &dout}) + bytes_of(dqkv)});
  const auto set_zero = [](const Tensor& x) { fill(stream_of(x), x.dtype(), x.raw(), x.elements(), 0.0); };
  if (!dqkv.accumulate) set_zero(dqkv.grad);
  const Tensor delta = empty(lse.shape(), lse.dtype(), lse.device());
  Shard current = ring.shard_of(qkv), next = ring.empty_shard(qkv);
  Shard gradients = ring.empty_shard(qkv), arriving = ring.empty_shard(qkv);
  set_zero(gradients);
  for (int step = 0; step < ring.ranks(); ++step) {
    Work arrives;
    if (step + 1 < ring.ranks()) arrives = ring.pass_on(current, next);
    ring.for_each_pair(step, qkv, current, out, lse, [&](const AttentionArgs& args, int own, int other) {
      AttentionGradients to;
      to.dout = ring.chunk(sizes.results(dout), own, dout.dtype());
      to.dq = ring.chunk(sizes.queries(dqkv.grad), own, dqkv.grad.dtype());
      to.dk = ring.keys(gradients, other);
      to.dv = ring.values(gradients, other);
      to.delta = ring.stats(delta, own);
      to.accumulate = true;
      attention_backward(stream_of(qkv), args, to);
    });
    arrives.wait();
    std::swap(current, next);
    ring.pass_on(gradients, arriving).wait();
    std::swap(gradients, arriving);
  }
  copy_rows(stream_of(qkv), qkv.dtype(), gradients.raw(), ring.kv_columns(),
            element_of(dqkv.grad, sizes.heads * sizes.width), sizes.row(), sizes.batch * sizes.tokens,
            ring.kv_columns(), true);
}

}  // namespace

Tensor ring_attention(const Tensor& qkv, int heads, int kv_heads, const AttentionOptions& options,
                      const std::shared_ptr<Communicator>& comm) {
  const AttentionRing ring{heads_of("ring_attention", qkv, heads, kv_heads, options), comm};
  const AttentionHeads& sizes = ring.sizes;
  check(sizes.tokens % 2 == 0, "ring_attention: expected two chunks of tokens, found {}", describe(qkv));
  check(options.dropout == 0 || ring.chunk_tokens() % 4 == 0,
        "--context-parallel {}: dropout of attention needs chunks of a multiple of 4 tokens, found {} chunks "
        "of {}: the nearest length of a sequence is {}",
        comm->size(), 2 * comm->size(), ring.chunk_tokens(),
        2 * comm->size() * nearest_multiple(ring.chunk_tokens(), 4));
  const OperationScope span("ring_attention", {&qkv});
  Tensor out = empty({sizes.batch, sizes.tokens, sizes.heads * sizes.width}, qkv.dtype(), qkv.device());
  const DType stat = qkv.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor lse = empty({2, sizes.batch, sizes.heads, ring.chunk_tokens()}, stat, qkv.device());
  add_work({.flops = 2 * ring.flops(), .bytes = bytes_of({&qkv, &out, &lse})});
  forward(ring, qkv, out, lse);
  if (Tape::records({&qkv})) {
    Tape::current().record("ring_attention", {qkv}, out, {qkv, out, lse},
                           [ring](BackwardContext& context) { backward(ring, context); });
  }
  return out;
}

std::shared_ptr<const ContextPart> context_part_over(const std::shared_ptr<Communicator>& comm) {
  return std::make_shared<ContextPart>(
      ContextPart{comm->rank(), comm->size(),
                  [comm](const Tensor& qkv, int heads, int kv_heads, const AttentionOptions& options) {
                    return ring_attention(qkv, heads, kv_heads, options, comm);
                  }});
}

}  // namespace ringtape
