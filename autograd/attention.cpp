#include <cmath>

#include "autograd/arguments.h"
#include "autograd/attention_heads.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/capture.h"
#include "kernels/copy_rows.h"

namespace ringtape {

void* element_of(const Tensor& tensor, std::int64_t index) {
  return static_cast<std::byte*>(tensor.raw()) + index * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

AttentionArgs AttentionHeads::args(const Tensor& qkv, const Tensor& out, const Tensor& lse) const {
  AttentionArgs args;
  args.dtype = qkv.dtype();
  args.batch = batch;
  args.heads = heads;
  args.kv_heads = kv_heads;
  args.queries = args.keys = tokens;
  args.width = width;
  args.scale = 1 / std::sqrt(static_cast<double>(width));
  args.q = queries(qkv);
  args.k = keys(qkv);
  args.v = values(qkv);
  args.out = results(out);
  args.lse = lse.raw();
  args.dropout = options.dropout;
  args.seed = options.seed;
  args.counter = options.counter;
  args.mask_heads = options.all_heads;
  args.first_mask_head = options.first_head;
  return args;
}

AttentionHeads heads_of(const char* operation, const Tensor& qkv, int heads, int kv_heads,
                        const AttentionOptions& options) {
  check_floating(operation, qkv);
  check(heads > 0 && kv_heads > 0 && heads % kv_heads == 0,
        "{}: expected heads in a multiple of kv_heads, and at least 1 of both, found {} and {}", operation,
        heads, kv_heads);
  const std::int64_t parts = std::int64_t{heads} + 2 * std::int64_t{kv_heads};
  check(qkv.dims() == 3 && qkv.size(2) % parts == 0 && qkv.size(2) > 0,
        "{}: expected qkv [B, T, (heads + 2 kv_heads) D] with {} heads and {} kv_heads, found {}", operation,
        heads, kv_heads, describe(qkv));
  const std::int64_t width = qkv.size(2) / parts;
  check(width <= kMaxAttentionWidth,
        "{}: expected heads of at most {} elements, found {} in qkv {} with {} heads and {} kv_heads",
        operation, kMaxAttentionWidth, width, describe(qkv), heads, kv_heads);
  if (options.dropout > 0) forbid_in_capture("the mask of dropout is drawn, which a replay would repeat");
  check(options.dropout >= 0 && options.dropout < 1, "{}: dropout must be in [0, 1), found {}", operation,
        options.dropout);
  check(options.all_heads == 0 ? options.first_head == 0
                               : options.first_head >= 0 && options.first_head + heads <= options.all_heads,
        "{}: {} heads from head {} on, expected heads of all {}", operation, heads, options.first_head,
        options.all_heads);
  return {qkv.size(0), qkv.size(1), heads, kv_heads, width, options};
}

namespace {

void backward(const AttentionHeads& sizes, BackwardContext& context) {
  const Tensor &qkv = context.saved(0), &out = context.saved(1), &lse = context.saved(2);
  const Tensor& dout = context.grad_output();
  const GradTarget dqkv = context.grad_target(0);
  const Tensor delta = empty(lse.shape(), lse.dtype(), lse.device());
  // Five products: p, dp, and the three gradients. (The kernels make p and dp twice.)
  add_work({.flops = 5 * sizes.flops(), .bytes = bytes_of({&qkv, &out, &lse, &dout}) + bytes_of(dqkv)});
  AttentionGradients gradients;
  gradients.dout = sizes.results(dout);
  gradients.dq = sizes.queries(dqkv.grad);
  gradients.dk = sizes.keys(dqkv.grad);
  gradients.dv = sizes.values(dqkv.grad);
  gradients.delta = delta.raw();
  gradients.accumulate = dqkv.accumulate;
  attention_backward(stream_of(qkv), sizes.args(qkv, out, lse), gradients);
}

}  // namespace

Tensor causal_self_attention(const Tensor& qkv, int heads, int kv_heads, const AttentionOptions& options) {
  const AttentionHeads sizes = heads_of("causal_self_attention", qkv, heads, kv_heads, options);
  const OperationScope span("causal_self_attention", {&qkv});
  Tensor out = empty({sizes.batch, sizes.tokens, sizes.heads * sizes.width}, qkv.dtype(), qkv.device());
  const DType stat = qkv.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor lse = empty({sizes.batch, sizes.heads, sizes.tokens}, stat, qkv.device());
  add_work({.flops = 2 * sizes.flops(), .bytes = bytes_of({&qkv, &out, &lse})});
  attention_forward(stream_of(qkv), sizes.args(qkv, out, lse));
  if (Tape::records({&qkv})) {
    Tape::current().record("causal_self_attention", {qkv}, out, {qkv, out, lse},
                           [sizes](BackwardContext& context) { backward(sizes, context); });
  }
  return out;
}

Tensor cached_self_attention(const Tensor& qkv, int heads, int kv_heads, const Tensor& cache,
                             std::int64_t length) {
  const AttentionHeads sizes = heads_of("cached_self_attention", qkv, heads, kv_heads, {});
  const std::int64_t kept = 2 * sizes.kv_heads * sizes.width;
  check(!Tape::records({&qkv}), "cached_self_attention: has no backward: call it under NoGrad");
  check(cache.defined() && cache.dims() == 3 && cache.size(0) == sizes.batch && cache.size(2) == kept &&
            cache.dtype() == qkv.dtype() && cache.device() == qkv.device(),
        "cached_self_attention: expected a cache {} [{}, capacity, {}] on {}, found {}", name_of(qkv.dtype()),
        sizes.batch, kept, to_string(qkv.device()), describe(cache));
  check(length >= 0 && length + sizes.tokens <= cache.size(1),
        "cached_self_attention: {} tokens and {} more exceed the cache's {}", length, sizes.tokens,
        cache.size(1));
  const OperationScope span("cached_self_attention", {&qkv, &cache});
  const Stream stream = stream_of(qkv);
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    copy_rows(stream, qkv.dtype(),
              element_of(qkv, b * sizes.tokens * sizes.row() + sizes.heads * sizes.width), sizes.row(),
              element_of(cache, (b * cache.size(1) + length) * kept), kept, sizes.tokens, kept, false);
  }
  Tensor out = empty({sizes.batch, sizes.tokens, sizes.heads * sizes.width}, qkv.dtype(), qkv.device());
  const DType stat = qkv.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor lse = empty({sizes.batch, sizes.heads, sizes.tokens}, stat, qkv.device());
  AttentionArgs args = sizes.args(qkv, out, lse);
  args.keys = length + sizes.tokens;
  args.k = sizes.operand(cache, kept, 0);
  args.v = sizes.operand(cache, kept, sizes.kv_heads);
  const std::int64_t seen = sizes.batch * args.keys * kept * static_cast<std::int64_t>(size_of(qkv.dtype()));
  add_work(
      {.flops = 2 * sizes.batch * sizes.heads * sizes.tokens * (2 * length + sizes.tokens + 1) * sizes.width,
       .bytes = bytes_of({&qkv, &out, &lse}) + seen});
  attention_forward(stream, args);
  return out;
}

}  // namespace ringtape
