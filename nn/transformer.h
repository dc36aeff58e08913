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

enum class MlpKind { gelu_tanh, gelu, swiglu };
enum class PositionKind { learned, rotary };

/// The shape of a decoder-only transformer; the initial values are GPT-2's of 124 M parameters, except that
/// GPT-2 was trained with a dropout of 0.1.
struct TransformerOptions {
  std::int64_t vocabulary = 50257;
  std::int64_t context = 1024;  ///< most tokens of a sequence
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads =
      0;  ///< heads of keys and values, each for several heads of queries; 0: the same number as `heads`
  std::int64_t width = 768;                      ///< elements of a token's vector
  std::int64_t hidden = 0;                       ///< of the MLP; 0: 4 width
  double dropout = 0;                            ///< of embeddings, attention and the blocks' results
  std::optional<double> embedding_dropout = {};  ///< in place of `dropout` for the embeddings
  std::optional<double> attention_dropout = {};  ///< and for the attention
  bool bias = true;                              ///< the linear layers and the layer norms have biases
  Norm::Kind norm = Norm::Kind::layer;
  double norm_eps = 1e-5;
  MlpKind mlp = MlpKind::gelu_tanh;
  PositionKind positions = PositionKind::learned;
  double rotary_base = 10000;
  bool tied = true;  ///< the output layer's weight is the token embedding's

  std::int64_t kv_heads_or_default() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t hidden_or_default() const { return hidden == 0 ? 4 * width : hidden; }
  std::int64_t head_size() const { return width / heads; }
  /// Columns of the projection to queries, keys and values.
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads_or_default()) * head_size(); }
};

/// The options of a model of Llama's shape (Touvron et al., "LLaMA", 2023): RMS norms, rotary positions,
/// SwiGLU, no biases, an output layer of its own. The sizes are taken from `sizes`.
TransformerOptions llama_options(TransformerOptions sizes);

/// The keys and values of the tokens that a GPT has seen, so that a further token costs one forward of one
/// token. A tensor [B, capacity, 2 * kv_heads * head_size] for each layer: a token's keys, then its values.
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
  /// Forgets all tokens but the first `length`.
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
  /// With `context`, of the tokens that a rank has.
  explicit RotaryPositions(const TransformerOptions& options,
                           std::shared_ptr<const ContextPart> context = nullptr)
      : options_(options), context_(std::move(context)) {}
  /// A table for positions below `end`, at most the context, for an x of this dtype and device; with a part
  /// of the tokens, for `end` of them. Where no earlier table is long enough a new one is made, of `end`
  /// rounded up to a power of 2 but at most the context. It lives as long as this object, unless it is made
  /// while a CUDA graph is captured.
  RotaryTable table(std::int64_t end, const Tensor& x);

 private:
  TransformerOptions options_;
  std::shared_ptr<const ContextPart> context_;
  std::vector<RotaryTable> made_;
};

/// Attention of every token to itself and the ones before it, with heads of their own queries, keys and
/// values: [B, T, width] to the same (Vaswani et al., "Attention is all you need", 2017). Parameters:
/// c_attn.weight [qkv_columns, width], with rows for all heads of queries, then all heads of keys, then all
/// heads of values; c_proj.weight [width, width]; and their biases.
class CausalSelfAttention : public Module {
 public:
  /// `positions` belong to the model; without them the module has its own.
  explicit CausalSelfAttention(const TransformerOptions& options,
                               std::shared_ptr<RotaryPositions> positions = nullptr,
                               const LayerFactory& layers = {});
  Tensor forward(const Tensor& x) override;
  /// forward() of new tokens x [B, T, width] that follow the cache's tokens; `layer` is this layer's number.
  Tensor next(const Tensor& x, KVCache& cache, std::size_t layer);

 private:
  Tensor qkv(const Tensor& x, std::int64_t first_position);

  TransformerOptions options_;  // of the heads that this rank has
  std::int64_t all_heads_, first_head_;
  std::shared_ptr<const ContextPart> context_;
  std::shared_ptr<RotaryPositions> positions_;
  std::shared_ptr<Module> c_attn_, c_proj_, drop_;
};

/// Two linear layers with an activation between them: c_fc, c_proj. With SwiGLU a third, c_gate, and
/// c_proj(silu(c_gate(x)) * c_fc(x)).
class MLP : public Module {
 public:
  explicit MLP(const TransformerOptions& options, const LayerFactory& layers = {});
  Tensor forward(const Tensor& x) override;

 private:
  MlpKind kind_;
  std::shared_ptr<Module> c_fc_, c_gate_, c_proj_, drop_;
};

/// A layer of a transformer, with its norms first ("pre-norm"): x + attn(ln_1(x)), then the same with
/// mlp(ln_2(x)).
class Block : public Module {
 public:
  explicit Block(const TransformerOptions& options, std::shared_ptr<RotaryPositions> positions = nullptr,
                 const LayerFactory& layers = {});
  Tensor forward(const Tensor& x) override;
  std::vector<Module*> units() override { return {this}; }
  /// The same; the result's last branch is not added yet.
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
