#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nn/layer_factory.h"
#include "nn/layers.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "nn/transformer.h"

namespace ringtape {

/// A decoder-only transformer. With the initial values: GPT-2 (Radford et al., "Language models are
/// unsupervised multitask learners", 2019); llama_options() of nn/transformer.h gives the shape of Llama.
///
/// Parameters: wte.weight [vocabulary, width], wpe.weight [context, width] for learned positions, h.N.* for
/// the blocks, ln_f.*, and lm_head.weight [vocabulary, width] unless it is tied to wte.weight.
///
/// At first: matrices are normal with standard deviation 0.02, or 0.02 / sqrt(2 layers) in the projections
/// back to the residual stream (attn.c_proj, mlp.c_proj); the weights of norms are 1, and biases are 0.
class GPT : public Module {
 public:
  /// Throws Error like check_options(), and for sizes that the ranks of `layers` cannot divide.
  explicit GPT(const TransformerOptions& options,
               std::shared_ptr<LayerFactory> layers = std::make_shared<LayerFactory>());
  /// Throws Error for sizes below 1 or above what the kernels take, heads that do not divide the width, KV
  /// heads that do not divide the heads, and other settings out of range.
  static void check_options(const TransformerOptions& options);

  /// Logits [B, T, vocabulary] of tokens [B, T] (i32 or i64); with ranks that divide the model, the logits of
  /// this rank's part of the vocabulary. Throws Error for a T above the context.
  Tensor forward(const Tensor& tokens) override;
  /// Unit 0 is the embeddings, then each block is one, and the last is ln_f with the output layer.
  Tensor forward_units(const Tensor& x, std::size_t first, std::size_t end) override;

  /// The logits of the last of the tokens [B, T], which follow the cache's tokens: [B, vocabulary]. Their
  /// keys and values are added to the cache. Records nothing on the tape. For a model that this rank has as a
  /// whole. Throws Error where the cache is too short or of another number of layers, in training mode, and
  /// where ranks divide sequences.
  Tensor next(const Tensor& tokens, KVCache& cache);
  /// An empty cache in the dtype and on the device of this model.
  KVCache make_cache(std::int64_t batch, std::int64_t capacity) const;

  const TransformerOptions& options() const { return options_; }

  /// Recomputes blocks in backward, in segments of `blocks` (Sequential::set_recompute). 0: none. Throws
  /// Error for a negative number.
  void set_recompute(std::int64_t blocks);

 private:
  void make_parts();
  template <class Make>
  auto make_part(std::size_t unit, const std::string& name, const Make& make);
  bool has(std::size_t unit) const;
  std::size_t last_unit() const { return static_cast<std::size_t>(options_.layers) + 1; }
  Tensor embed(const Tensor& tokens, std::int64_t first_position);
  Residual run_blocks(Residual stream, std::size_t first, std::size_t end);
  Tensor head(const Tensor& normed);

  TransformerOptions options_;
  std::shared_ptr<LayerFactory> layers_;
  Tensor* wte_ = nullptr;
  Tensor* wpe_ = nullptr;
  std::shared_ptr<Module> drop_;
  std::shared_ptr<Module> h_;                   // the list of the blocks
  std::vector<std::shared_ptr<Block>> blocks_;  // null for blocks of other stages
  std::shared_ptr<Norm> ln_f_;
  std::shared_ptr<Module> lm_head_;  // null where the weight is wte_
  std::int64_t recompute_ = 0;
};

}  // namespace ringtape
