#include "nn/transformer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/capture.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
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

RotaryTable RotaryPositions::table(std::int64_t end, const Tensor& x) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  for (const RotaryTable& made : made_) {
    const Tensor& cosines = made.cosines;
    const bool fits = context_ == nullptr ? cosines.size(0) >= end : cosines.size(0) == end;
    if (fits && cosines.dtype() == dtype && cosines.device() == x.device()) return made;
  }
  const MemoryScope scope(MemoryCategory::other);  // not an activation of the layer that uses it first
  const std::int64_t last = context_ == nullptr ? end : end * context_->ranks;
  const auto positions = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(last)));
  RotaryTable made = make_rotary_table(std::max(last, std::min(positions, options_.context)),
                                       options_.head_size(), options_.rotary_base, dtype, x.device());
  if (context_ != nullptr) {
    const NoGrad no_grad;
    const Tensor own = context_->positions(end, x.device());
    made = {embedding(own, made.cosines), embedding(own, made.sines)};
  }
  if (!is_capturing()) made_.push_back(made);  // a captured one has no values before the graph runs
  return made;
}

namespace {

/// The rows of c_attn.weight: queries, keys and values.
std::vector<std::int64_t> blocks_of_qkv(const TransformerOptions& options) {
  const std::int64_t keys = options.kv_heads_or_default() * options.head_size();
  return {options.width, keys, keys};
}

/// The options of the attention with the heads that a rank has.
TransformerOptions part_of_heads(TransformerOptions options, const LayerFactory& layers) {
  const std::int64_t kv_heads = options.kv_heads_or_default(), width = options.head_size();
  options.heads = layers.part_of("heads", options.heads);
  options.kv_heads = layers.part_of("heads of keys and values", kv_heads);
  options.width = options.heads * width;
  return options;
}

}  // namespace

CausalSelfAttention::CausalSelfAttention(const TransformerOptions& options,
                                         std::shared_ptr<RotaryPositions> positions,
                                         const LayerFactory& layers)
    : options_(part_of_heads(options, layers)),
      all_heads_(options.heads),
      first_head_(layers.rank() * options_.heads),
      context_(layers.context()),
      positions_(positions != nullptr ? std::move(positions)
                                      : std::make_shared<RotaryPositions>(options, context_)),
      c_attn_(register_module("c_attn",
                              layers.column_linear(options.width, blocks_of_qkv(options), options.bias))),
      c_proj_(register_module("c_proj", layers.row_linear(options.width, options.width, options.bias))),
      drop_(register_module("drop", layers.dropout(options.dropout))) {}

/// Queries, keys and values; with rotary positions, queries and keys are rotated.
Tensor CausalSelfAttention::qkv(const Tensor& x, std::int64_t first_position) {
  Tensor packed = (*c_attn_)(x);
  if (options_.positions == PositionKind::learned) return packed;
  const RotaryTable table = positions_->table(first_position + packed.size(1), packed);
  return rotary(packed, table, options_.heads + options_.kv_heads_or_default(), first_position);
}

Tensor CausalSelfAttention::forward(const Tensor& x) {
  AttentionOptions attention;
  const double dropout = options_.attention_dropout.value_or(options_.dropout);
  if (is_training() && dropout > 0) {
    attention = {.dropout = dropout,
                 .seed = default_generator().seed,
                 .counter = default_generator().take(1),
                 .all_heads = all_heads_,
                 .first_head = first_head_};
  }
  const auto attend = [&](const auto& among) {
    return among(qkv(x, 0), static_cast<int>(options_.heads),
                 static_cast<int>(options_.kv_heads_or_default()), attention);
  };
  const Tensor y = context_ == nullptr ? attend(causal_self_attention) : attend(context_->attention);
  return (*drop_)((*c_proj_)(y));
}

Tensor CausalSelfAttention::next(const Tensor& x, KVCache& cache, std::size_t layer) {
  const ModuleScope scope(*this);
  const Tensor y = cached_self_attention(qkv(x, cache.length()), static_cast<int>(options_.heads),
                                         static_cast<int>(options_.kv_heads_or_default()),
                                         cache.layers_[layer], cache.length());
  return (*c_proj_)(y);
}

// ---- MLP ----

MLP::MLP(const TransformerOptions& options, const LayerFactory& layers) : kind_(options.mlp) {
  const std::int64_t hidden = options.hidden_or_default();
  const auto to_hidden = [&] { return layers.column_linear(options.width, {hidden}, options.bias); };
  if (kind_ == MlpKind::swiglu) c_gate_ = register_module("c_gate", to_hidden());
  c_fc_ = register_module("c_fc", to_hidden());
  c_proj_ = register_module("c_proj", layers.row_linear(hidden, options.width, options.bias));
  drop_ = register_module("drop", layers.dropout(options.dropout));
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

Block::Block(const TransformerOptions& options, std::shared_ptr<RotaryPositions> positions,
             const LayerFactory& layers) {
  ln_1_ = register_module(
      "ln_1", std::make_shared<Norm>(options.norm, options.width, options.norm_eps, options.bias));
  attn_ =
      register_module("attn", std::make_shared<CausalSelfAttention>(options, std::move(positions), layers));
  ln_2_ = register_module(
      "ln_2", std::make_shared<Norm>(options.norm, options.width, options.norm_eps, options.bias));
  mlp_ = register_module("mlp", std::make_shared<MLP>(options, layers));
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
