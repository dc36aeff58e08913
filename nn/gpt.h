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

/// A decoder-only transformer. With the default options it is GPT-2 (Radford et al., "Language models are
/// unsupervised multitask learners", 2019); llama_options() of nn/transformer.h gives Llama's architecture.
///
/// Parameters: wte.weight [vocabulary, width], wpe.weight [context, width] for learned positions, h.N.* for
/// the blocks, ln_f.*, and lm_head.weight [vocabulary, width] unless it is tied to wte.weight.
///
/// Initial values: matrices are normal with standard deviation 0.02, or 0.02 / sqrt(2 layers) for the
/// projections back to the residual stream (attn.c_proj, mlp.c_proj); the weights of norms are 1, and biases
/// are 0.
class GPT : public Module {
 public:
  /// Throws Error as check_options() does, and for sizes that the ranks of `layers` cannot divide.
  explicit GPT(const TransformerOptions& options,
               std::shared_ptr<LayerFactory> layers = std::make_shared<LayerFactory>());
  /// Throws Error for sizes below 1 or above the kernels' limits, heads that do not divide the width, heads
  /// of keys and values that do not divide the heads, and other settings out of range.
  static void check_options(const TransformerOptions& options);

  /// Logits [B, T, vocabulary] of tokens [B, T] (i32 or i64); with tensor-parallel ranks only the logits of
  /// this rank's part of the vocabulary. Throws Error for a T above the context.
  Tensor forward(const Tensor& tokens) override;
  /// Unit 0 is the embeddings, each block is a unit, and the last unit is ln_f with the output layer.
  Tensor forward_units(const Tensor& x, std::size_t first, std::size_t end) override;

  /// The logits of the last of the new tokens [B, T], which follow the cache's tokens: [B, vocabulary]. Adds
  /// their keys and values to the cache. Records nothing on the tape. For a rank that has the whole model.
  /// Throws Error if the cache is too short or for another batch or number of layers, in training mode, and
  /// if ranks divide sequences.
  Tensor next(const Tensor& tokens, KVCache& cache);
  /// An empty cache in the dtype and on the device of this model, for a rank that has all blocks.
  KVCache make_cache(std::int64_t batch, std::int64_t capacity) const;

  const TransformerOptions& options() const { return options_; }

  /// Recomputes blocks in backward, in segments of `blocks` (see Sequential::set_recompute()). 0: no
  /// recomputation. Throws Error for a negative number.
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
