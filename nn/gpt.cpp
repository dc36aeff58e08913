#include "nn/gpt.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "autograd/low_precision.h"
#include "autograd/ops.h"
#include "autograd/recompute.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/numbers.h"
#include "kernels/attention.h"
#include "kernels/norm.h"
#include "nn/gpt_estimate.h"
#include "nn/init.h"
#include "nn/module_scope.h"
#include "nn/parameter_shard.h"

namespace ringtape {
namespace {

/// Throws Error unless 1 <= value <= most.
void check_size(const char* what, std::int64_t value, std::int64_t most) {
  check(value >= 1 && value <= most, "GPT: {}: expected 1 to {}, found {}", what, most, value);
}

/// The blocks "0", "1", ...: named_parameters() lists them as h.0, h.1, ...
class BlockList : public Module {
 public:
  std::shared_ptr<Block> add(std::int64_t number, std::shared_ptr<Block> block) {
    return register_module(std::to_string(number), std::move(block));
  }
  Tensor forward(const Tensor&) override { fail("GPT: its blocks are called one by one"); }
};

/// Sets GPT-2's initial values in a part of the model.
void initialise(Module& part, std::int64_t layers) {
  const double of_residual = 0.02 / std::sqrt(2.0 * static_cast<double>(layers));
  for (const NamedParameter& parameter : part.named_parameters()) {
    if (parameter.name.ends_with("bias")) {
      parameter.tensor->copy_from(zeros(parameter.tensor->shape()));
    } else if (parameter.tensor->dims() == 2) {
      const double deviation = parameter.name.ends_with("c_proj.weight") ? of_residual : 0.02;
      if (shard_of(*parameter.tensor) == nullptr) {
        init::normal(*parameter.tensor, deviation);
      } else {
        Tensor whole = empty(whole_shape_of(*parameter.tensor));
        init::normal(whole, deviation);
        load_whole(*parameter.tensor, whole);
      }
    }
  }
}

}  // namespace

void GPT::check_options(const TransformerOptions& o) {
  check_size("vocabulary", o.vocabulary, 1 << 24);
  check_size("context", o.context, 1 << 24);
  check_size("layers", o.layers, 10000);
  check_size("heads", o.heads, 1 << 16);
  check_size("width", o.width, kMaxNormColumns);
  check_size("hidden", o.hidden_or_default(), 1 << 20);
  check(o.width % o.heads == 0, "GPT: a width of {} is not divisible by {} heads", o.width, o.heads);
  check(o.head_size() <= kMaxAttentionWidth, "GPT: heads have {} elements, expected at most {}",
        o.head_size(), kMaxAttentionWidth);
  check(o.kv_heads >= 0 && o.heads % o.kv_heads_or_default() == 0,
        "GPT: {} cannot be divided among {} of keys and values", counted(o.heads, "head"),
        counted(o.kv_heads, "head"));
  check(o.norm_eps >= 0 && o.norm_eps < 1, "GPT: norm_eps: expected 0 to 1, found {}", o.norm_eps);
  check(o.positions == PositionKind::learned || o.head_size() % 2 == 0,
        "GPT: rotary positions need heads of an even size, found {}", o.head_size());
  check(o.positions == PositionKind::learned || (std::isfinite(o.rotary_base) && o.rotary_base > 0),
        "GPT: rotary_base must be above 0, found {}", o.rotary_base);
  for (const double p : {o.dropout, o.embedding_dropout.value_or(0), o.attention_dropout.value_or(0)}) {
    check(p >= 0 && p < 1, "GPT: a dropout must be at least 0 and below 1, found {}", p);
  }
}

GPT::GPT(const TransformerOptions& options, std::shared_ptr<LayerFactory> layers)
    : options_(options), layers_(std::move(layers)) {
  check_options(options);
  if (layers_->stages() != nullptr) layers_->stages()->divide(costs_of_units(options));
  make_parts();
}

bool GPT::has(std::size_t unit) const {
  return layers_->stages() == nullptr || layers_->stages()->has(unit);
}

/// Makes and initialises a part of the model. Null if only other stages need it.
template <class Make>
auto GPT::make_part(std::size_t unit, const std::string& name, const Make& make) {
  auto part = [&] {
    const init::Skip skip;  // initialise() follows
    return make();
  }();
  initialise(*part, options_.layers);
  if (layers_->stages() != nullptr) layers_->stages()->add(unit, name, *part);
  const bool is_copied = name == "wte" && options_.tied;  // the output layer's unit needs it too
  if (is_copied && layers_->stages() != nullptr) layers_->stages()->add_copy("wte.weight", last_unit());
  if (!has(unit) && !(is_copied && has(last_unit()))) part = nullptr;
  return part;
}

void GPT::make_parts() {
  const TransformerOptions& options = options_;
  const auto table = make_part(0, "wte", [&] {
    return layers_->by_vocabulary(std::make_shared<Embedding>(options.vocabulary, options.width));
  });
  if (table != nullptr) wte_ = &register_module("wte", table)->parameter("weight");
  if (options.positions == PositionKind::learned) {
    const auto positions =
        make_part(0, "wpe", [&] { return std::make_shared<Embedding>(options.context, options.width); });
    if (positions != nullptr) wpe_ = &register_module("wpe", positions)->parameter("weight");
  }
  drop_ = register_module("drop", layers_->dropout(options.embedding_dropout.value_or(options.dropout)));
  const auto list = register_module("h", std::make_shared<BlockList>());
  h_ = list;
  const auto positions = std::make_shared<RotaryPositions>(options, layers_->context());
  for (std::int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(make_part(static_cast<std::size_t>(i) + 1, "h." + std::to_string(i),
                                [&] { return std::make_shared<Block>(options, positions, *layers_); }));
    if (blocks_.back() != nullptr) list->add(i, blocks_.back());
  }
  const auto norm = make_part(last_unit(), "ln_f", [&] {
    return std::make_shared<Norm>(options.norm, options.width, options.norm_eps, options.bias);
  });
  if (norm != nullptr) ln_f_ = register_module("ln_f", norm);
  if (options.tied) return;
  const auto output = make_part(last_unit(), "lm_head", [&] {
    return layers_->by_vocabulary(std::make_shared<Linear>(options.width, options.vocabulary, false));
  });
  if (output != nullptr) lm_head_ = register_module("lm_head", output);
}

Tensor GPT::embed(const Tensor& tokens, std::int64_t first_position) {
  check(tokens.defined() && tokens.dims() == 2, "GPT: expected tokens [B, T], found {}", describe(tokens));
  const ContextPart* const part = layers_->context().get();
  const std::int64_t all = tokens.size(1) * (part != nullptr ? part->ranks : 1);
  check(all <= options_.context - first_position, "GPT: {} tokens exceed the context of {}",
        first_position + all, options_.context);
  Tensor positions = wpe_ == nullptr ? Tensor() : *wpe_;
  if (part != nullptr && wpe_ != nullptr) {
    positions = embedding(part->positions(tokens.size(1), tokens.device()), *wpe_);
  }
  return (*drop_)(layers_->embed(tokens, *wte_, positions, first_position));
}

void GPT::set_recompute(std::int64_t blocks) {
  check(blocks >= 0, "GPT: segments to recompute have at least 0 blocks, found {}", blocks);
  recompute_ = blocks;
}

KVCache GPT::make_cache(std::int64_t batch, std::int64_t capacity) const {
  check(layers_->stages() == nullptr, "GPT: make_cache() is for a rank with all blocks");
  return KVCache(options_, batch, capacity, compute_dtype_of(*wte_), wte_->device());
}

/// Blocks `begin` to `end` - 1.
Residual GPT::run_blocks(Residual stream, std::size_t begin, std::size_t end) {
  const ModuleScope scope(*h_);
  const auto run = [this, begin](Tensor x, std::size_t first, std::size_t last) {
    for (std::size_t i = begin + first; i < begin + last; ++i) x = (*blocks_[i])(x);
    return x;
  };
  const std::size_t rest =
      recompute_segments(stream.sum, end - begin, static_cast<std::size_t>(recompute_), run);
  for (std::size_t i = begin + rest; i < end; ++i) stream = (*blocks_[i])(std::move(stream));
  return stream;
}

Tensor GPT::head(const Tensor& normed) {
  return lm_head_ == nullptr ? layers_->logits(normed, *wte_) : (*lm_head_)(normed);
}

Tensor GPT::forward(const Tensor& tokens) {
  return forward_units(tokens, 0, last_unit() + 1);
}

Tensor GPT::forward_units(const Tensor& x, std::size_t first, std::size_t end) {
  const bool has_output = end == last_unit() + 1;
  const std::size_t first_block = first == 0 ? 0 : first - 1, end_block = has_output ? end - 2 : end - 1;
  Residual stream = run_blocks({first == 0 ? embed(x, 0) : x, {}}, first_block, end_block);
  return has_output ? head((*ln_f_)(stream)) : stream.value();
}

Tensor GPT::next(const Tensor& tokens, KVCache& cache) {
  const NoGrad no_grad;
  const ModuleScope scope(*this);
  check(tokens.defined() && tokens.dims() == 2 && tokens.size(0) == cache.batch() && tokens.size(1) >= 1,
        "GPT: expected at least one token for each of the cache's {} sequences, found {}", cache.batch(),
        describe(tokens));
  check(layers_->context() == nullptr, "GPT: next() is for a rank with all tokens of a sequence");
  check(layers_->stages() == nullptr, "GPT: next() is for a rank with all blocks");
  check(!is_training(), "GPT: next() is for evaluation mode: call eval() first");
  check(cache.layers_.size() == blocks_.size(),
        "KVCache: made for another model: it has {} layers, expected {}", cache.layers_.size(),
        blocks_.size());
  check(cache.length() + tokens.size(1) <= cache.capacity(), "GPT: {} tokens exceed the cache's {}",
        cache.length() + tokens.size(1), cache.capacity());
  Residual stream{embed(tokens, cache.length()), {}};
  {
    const ModuleScope blocks(*h_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      stream = blocks_[i]->next(std::move(stream), cache, i);
    }
  }
  cache.length_ += tokens.size(1);
  const Tensor normed = (*ln_f_)(stream);
  const std::int64_t batch = tokens.size(0), length = tokens.size(1), width = options_.width;
  if (length == 1) return head(normed.alias({batch, width}));
  std::vector<Tensor> last;
  for (std::int64_t b = 0; b < batch; ++b) {
    last.push_back(normed.alias({1, width}, ((b + 1) * length - 1) * width));
  }
  return head(cat(last));
}

}  // namespace ringtape
