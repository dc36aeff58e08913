#include "nn/transformer.h"

#include <cmath>
#include <utility>

#include "autograd/ops.h"
#include "core/error.h"
#include "core/random.h"
#include "core/stream.h"
#include "kernels/attention.h"
#include "kernels/copy_rows.h"
#include "nn/module_scope.h"

namespace ringtape {

TransformerOptions llama_options(TransformerOptions sizes) {
  sizes.bias = false;
  sizes.norm = Norm::Kind::rms;
  sizes.mlp = MlpKind::swiglu;
  sizes.positions = PositionKind::rotary;
  sizes.tied = false;
  return sizes;
}

// ---- KVCache ----

KVCache::KVCache(const TransformerOptions& options, std::int64_t batch, std::int64_t capacity, DType dtype,
                 Device device)
    : batch_(batch), capacity_(capacity) {
  check(batch >= 1, "KVCache: the batch must be at least 1, found {}", batch);
  check(capacity >= 1 && capacity <= options.context,
        "KVCache: the capacity must be from 1 to the context of {} tokens, found {}", options.context,
        capacity);
  const std::int64_t columns = 2 * options.kv_heads_or_default() * options.head_size();
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(empty({batch, capacity, columns}, dtype, device));
  }
}

void KVCache::truncate(std::int64_t length) {
  check(length >= 0 && length <= length_, "KVCache: cannot keep {} of {} tokens", length, length_);
  length_ = length;
}

// ---- CausalSelfAttention ----

CausalSelfAttention::CausalSelfAttention(const TransformerOptions& options)
    : options_(options),
      c_attn_(register_module("c_attn",
                              std::make_shared<Linear>(options.width, options.qkv_columns(), options.bias))),
      c_proj_(
          register_module("c_proj", std::make_shared<Linear>(options.width, options.width, options.bias))),
      drop_(register_module("drop", std::make_shared<Dropout>(options.dropout))) {}

/// Queries, keys and values, turned by their positions where these are rotary.
Tensor CausalSelfAttention::qkv(const Tensor& x, std::int64_t first_position) {
  Tensor packed = (*c_attn_)(x);
  if (options_.positions == PositionKind::learned) return packed;
  return rotary(packed, options_.head_size(), options_.heads + options_.kv_heads_or_default(),
                options_.rotary_base, first_position);
}

Tensor CausalSelfAttention::forward(const Tensor& x) {
  AttentionOptions attention;
  if (is_training() && options_.dropout > 0) {
    attention = {.dropout = options_.dropout,
                 .seed = default_generator().seed,
                 .counter = default_generator().take(1)};
  }
  const Tensor y = causal_self_attention(qkv(x, 0), static_cast<int>(options_.heads),
                                         static_cast<int>(options_.kv_heads_or_default()), attention);
  return (*drop_)((*c_proj_)(y));
}

Tensor CausalSelfAttention::next(const Tensor& x, KVCache& cache, std::size_t layer) {
  const ModuleScope scope(*this);
  const std::int64_t batch = x.size(0), tokens = x.size(1), width = options_.width;
  const std::int64_t kv_heads = options_.kv_heads_or_default(), head = options_.head_size();
  const std::int64_t row = options_.qkv_columns(), kv_columns = 2 * kv_heads * head;
  const Tensor packed = qkv(x, cache.length());
  const Tensor& kept = cache.layers_[layer];
  check(kept.shape() == Shape{batch, cache.capacity(), kv_columns} && kept.dtype() == packed.dtype() &&
            kept.device() == packed.device(),
        "KVCache: made for another model: a layer is {}, expected {} {}", describe(kept),
        name_of(packed.dtype()), to_string(Shape{batch, cache.capacity(), kv_columns}));
  const Stream stream = Stream::current(x.device());
  const auto at = [](const Tensor& tensor, std::int64_t element) { return tensor.alias({1}, element).raw(); };
  for (std::int64_t b = 0; b < batch; ++b) {
    copy_rows(stream, x.dtype(), at(packed, b * tokens * row + width), row,
              at(kept, (b * cache.capacity() + cache.length()) * kv_columns), kv_columns, tokens, kv_columns,
              false);
  }
  const Tensor y = empty({batch, tokens, width}, x.dtype(), x.device());
  const Tensor lse = empty({batch, options_.heads, tokens}, DType::f32, x.device());
  const std::int64_t sequence = cache.capacity() * kv_columns;
  AttentionArgs args;
  args.dtype = x.dtype();
  args.batch = batch;
  args.heads = options_.heads;
  args.kv_heads = kv_heads;
  args.queries = tokens;
  args.keys = cache.length() + tokens;
  args.width = head;
  args.scale = 1 / std::sqrt(static_cast<double>(head));
  args.q = {packed.raw(), tokens * row, row, head};
  args.k = {kept.raw(), sequence, kv_columns, head};
  args.v = {at(kept, kv_heads * head), sequence, kv_columns, head};
  args.out = {y.raw(), tokens * width, width, head};
  args.lse = lse.raw();
  attention_forward(stream, args);
  return (*c_proj_)(y);
}

// ---- MLP ----

MLP::MLP(const TransformerOptions& options) : kind_(options.mlp) {
  const std::int64_t hidden = options.hidden_or_default();
  const auto linear_layer = [&](std::int64_t in, std::int64_t out) {
    return std::make_shared<Linear>(in, out, options.bias);
  };
  if (kind_ == MlpKind::swiglu) c_gate_ = register_module("c_gate", linear_layer(options.width, hidden));
  c_fc_ = register_module("c_fc", linear_layer(options.width, hidden));
  c_proj_ = register_module("c_proj", linear_layer(hidden, options.width));
  drop_ = register_module("drop", std::make_shared<Dropout>(options.dropout));
}

Tensor MLP::forward(const Tensor& x) {
  Tensor hidden;
  switch (kind_) {
    case MlpKind::gelu_tanh:
      hidden = gelu_tanh((*c_fc_)(x));
      break;
    case MlpKind::gelu:
      hidden = gelu((*c_fc_)(x));
      break;
    case MlpKind::swiglu:
      hidden = swiglu((*c_gate_)(x), (*c_fc_)(x));
      break;
  }
  return (*drop_)((*c_proj_)(hidden));
}

// ---- Block ----

Block::Block(const TransformerOptions& options) {
  ln_1_ = register_module(
      "ln_1", std::make_shared<Norm>(options.norm, options.width, options.norm_eps, options.bias));
  attn_ = register_module("attn", std::make_shared<CausalSelfAttention>(options));
  ln_2_ = register_module(
      "ln_2", std::make_shared<Norm>(options.norm, options.width, options.norm_eps, options.bias));
  mlp_ = register_module("mlp", std::make_shared<MLP>(options));
}

Tensor Block::forward(const Tensor& x) {
  return run(Residual{x, {}}).value();
}

Residual Block::operator()(Residual stream) {
  const ModuleScope scope(*this);
  return run(std::move(stream));
}

Residual Block::run(Residual stream) {
  stream.branch = (*attn_)((*ln_1_)(stream));
  stream.branch = (*mlp_)((*ln_2_)(stream));
  return stream;
}

Residual Block::next(Residual stream, KVCache& cache, std::size_t layer) {
  const ModuleScope scope(*this);
  stream.branch = attn_->next((*ln_1_)(stream), cache, layer);
  stream.branch = (*mlp_)((*ln_2_)(stream));
  return stream;
}

}  // namespace ringtape
