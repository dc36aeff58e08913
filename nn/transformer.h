#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/ops.h"
#include "nn/layer_factory.h"
#include "nn/layers.h"
#include "nn/module.h"
#include "nn/norm.h"

namespace ringtape {

/// The activation of a block's MLP: GELU by its tanh approximation (GPT-2), exact GELU, or SwiGLU (Llama).
enum class MlpKind { gelu_tanh, gelu, swiglu };
/// How positions enter the model: a learned embedding (GPT-2), or a rotation of queries and keys (Llama).
enum class PositionKind { learned, rotary };

/// The architecture of a decoder-only transformer. The defaults are those of GPT-2 with 124 M parameters,
/// except that GPT-2 was trained with a dropout of 0.1.
struct TransformerOptions {
  std::int64_t vocabulary = 50257;
  std::int64_t context = 1024;  ///< largest number of tokens of a sequence
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 0;  ///< heads of keys and values, each for several query heads; 0: equal to `heads`
  std::int64_t width = 768;   ///< elements of a token's vector
  std::int64_t hidden = 0;    ///< of the MLP; 0: 4 * width
  double dropout = 0;         ///< of embeddings, attention weights and branches
  std::optional<double> embedding_dropout = {};  ///< of the embeddings, instead of `dropout`
  std::optional<double> attention_dropout = {};  ///< of the attention weights
  bool bias = true;                              ///< the linear layers and the layer norms have biases
  Norm::Kind norm = Norm::Kind::layer;
  double norm_eps = 1e-5;
  MlpKind mlp = MlpKind::gelu_tanh;
  PositionKind positions = PositionKind::learned;
  double rotary_base = 10000;
  bool tied = true;  ///< the output layer shares the token embedding's weight

  std::int64_t kv_heads_or_default() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t hidden_or_default() const { return hidden == 0 ? 4 * width : hidden; }
  std::int64_t head_size() const { return width / heads; }
  /// Columns of the projection to queries, keys and values.
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads_or_default()) * head_size(); }
};

/// The options of a model of Llama's architecture (Touvron et al., "LLaMA", 2023): RMS norms, rotary
/// positions, SwiGLU, no biases, an untied output layer. All other options are those of `sizes`.
TransformerOptions llama_options(TransformerOptions sizes);

/// The keys and values of the tokens that a GPT has seen, so that a further token costs one forward of one
/// token. For each layer a tensor [B, capacity, 2 * kv_heads * head_size]: of each token the keys, then the
/// values.
class KVCache {
 public:
  /// Memory for `batch` sequences of up to `capacity` tokens, in the dtype that the model computes in. Throws
  /// Error for a batch or capacity below 1, or a capacity above the context.
  KVCache(const TransformerOptions& options, std::int64_t batch, std::int64_t capacity, DType dtype,
          Device device);

  std::int64_t batch() const { return batch_; }
  std::int64_t capacity() const { return capacity_; }
  /// Tokens in the cache.
  std::int64_t length() const { return length_; }
  /// Forgets all tokens but the first `length`. Throws Error for more than there are.
  void truncate(std::int64_t length);

 private:
  friend class GPT;
  friend class CausalSelfAttention;

  std::vector<Tensor> layers_;
  std::int64_t batch_;
  std::int64_t capacity_;
  std::int64_t length_ = 0;
};

/// The angles of rotary positions, shared by the layers of a model.
class RotaryPositions {
 public:
  /// With `context`: of the tokens that this rank has.
  explicit RotaryPositions(const TransformerOptions& options,
                           std::shared_ptr<const ContextPart> context = nullptr)
      : options_(options), context_(std::move(context)) {}
  /// A table for positions below `end`, at most the context, for an x of this dtype and device; with
  /// `context`, for this rank's `end` tokens. If no earlier table is long enough, a new one is made, for
  /// `end` rounded up to a power of 2 but at most the context. It lives as long as this object, unless it is
  /// made while a CUDA graph is captured.
  RotaryTable table(std::int64_t end, const Tensor& x);

 private:
  TransformerOptions options_;
  std::shared_ptr<const ContextPart> context_;
  std::vector<RotaryTable> made_;
};

/// Causal multi-head self-attention: [B, T, width] to the same shape (Vaswani et al., "Attention is all you
/// need", 2017); grouped-query attention if kv_heads is smaller than heads (Ainslie et al., "GQA", 2023).
/// Parameters: c_attn.weight [qkv_columns, width], with rows for all query heads, then all key heads, then
/// all value heads; c_proj.weight [width, width]; and their biases.
class CausalSelfAttention : public Module {
 public:
  /// `positions` are shared by the layers of a model; if null, the module makes its own.
  explicit CausalSelfAttention(const TransformerOptions& options,
                               std::shared_ptr<RotaryPositions> positions = nullptr,
                               const LayerFactory& layers = {});
  Tensor forward(const Tensor& x) override;
  /// forward() of new tokens x [B, T, width] that follow the cache's tokens; writes their keys and values to
  /// the cache. `layer` is this layer's number.
  Tensor next(const Tensor& x, KVCache& cache, std::size_t layer);

 private:
  Tensor qkv(const Tensor& x, std::int64_t first_position);

  TransformerOptions options_;  // of the heads that this rank has
  std::int64_t all_heads_, first_head_;
  std::shared_ptr<const ContextPart> context_;
  std::shared_ptr<RotaryPositions> positions_;
  std::shared_ptr<Module> c_attn_, c_proj_, drop_;
};

/// Two linear layers, c_fc and c_proj, with an activation between them. With SwiGLU there is a third, c_gate:
/// c_proj(silu(c_gate(x)) * c_fc(x)).
class MLP : public Module {
 public:
  explicit MLP(const TransformerOptions& options, const LayerFactory& layers = {});
  Tensor forward(const Tensor& x) override;

 private:
  MlpKind kind_;
  std::shared_ptr<Module> c_fc_, c_gate_, c_proj_, drop_;
};

/// A layer of a transformer with its norms first ("pre-norm"): y = x + attn(ln_1(x)), then y + mlp(ln_2(y)).
class Block : public Module {
 public:
  explicit Block(const TransformerOptions& options, std::shared_ptr<RotaryPositions> positions = nullptr,
                 const LayerFactory& layers = {});
  Tensor forward(const Tensor& x) override;
  std::vector<Module*> fsdp_units() override { return {this}; }
  /// The same of a residual stream; the last branch of the result is not added yet.
  Residual operator()(Residual stream);
  using Module::operator();
  /// The same for new tokens that follow the cache's tokens; `layer` is this layer's number.
  Residual next(Residual stream, KVCache& cache, std::size_t layer);

 private:
  Residual run(Residual stream);

  std::shared_ptr<Norm> ln_1_, ln_2_;
  std::shared_ptr<CausalSelfAttention> attn_;
  std::shared_ptr<MLP> mlp_;
};

}  // namespace ringtape
