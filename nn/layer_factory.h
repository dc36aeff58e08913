#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "nn/context_part.h"
#include "nn/module.h"
#include "nn/stages.h"

namespace ringtape {

/// Where a model gets the layers that ranks can divide between them, and the operations around them. This one
/// divides nothing: one rank, or ranks that each have the whole model. dist/tensor_parallel.h has the other.
///
/// A rank's part of a layer has the name and, element for element, the initial values of the whole layer's.
class LayerFactory {
 public:
  virtual ~LayerFactory() = default;

  /// The number of ranks that divide the model, and this rank's number among them.
  virtual int ranks() const { return 1; }
  virtual int rank() const { return 0; }
  /// The stages of a pipeline, of which this rank has one, for a model that is a chain of units; null for no
  /// pipeline.
  Stages* stages() const { return stages_.get(); }
  void set_stages(std::shared_ptr<Stages> stages) { stages_ = std::move(stages); }
  /// The tokens that this rank has where ranks divide sequences; null where it has all.
  const std::shared_ptr<const ContextPart>& context() const { return context_; }
  void set_context(std::shared_ptr<const ContextPart> context) { context_ = std::move(context); }
  /// Whether a rank has a part of the model only, or of its sequences.
  bool divides() const { return ranks() > 1 || stages_ != nullptr || context_ != nullptr; }
  /// The part of `count` things, such as heads, that a rank has. Throws Error that names `what` and the
  /// nearest number of ranks if they cannot be divided equally.
  virtual std::int64_t part_of(const char* what, std::int64_t count) const;

  /// A Linear whose outputs are divided: a rank computes its part of each of the `blocks` that they consist
  /// of.
  virtual std::shared_ptr<Module> column_linear(std::int64_t in, const std::vector<std::int64_t>& blocks,
                                                bool with_bias = true) const;
  /// A Linear whose inputs are divided, as a column_linear() has left them; every rank gets all outputs.
  virtual std::shared_ptr<Module> row_linear(std::int64_t in, std::int64_t out, bool with_bias = true) const;

  /// Dropout between these layers, of values that every rank has, or of the tokens that a rank has.
  virtual std::shared_ptr<Module> dropout(double p) const;

  /// `table`, an Embedding or an output layer without a bias, with the rows of "weight" divided.
  virtual std::shared_ptr<Module> by_vocabulary(std::shared_ptr<Module> table) { return table; }
  /// embedding() of all tokens by such a weight.
  virtual Tensor embed(const Tensor& tokens, const Tensor& weight, const Tensor& positions,
                       std::int64_t first_position) const;
  /// The logits of x [.., C] by such a weight, where the output layer is tied to the embedding: the logits of
  /// the rank's part of the vocabulary.
  virtual Tensor logits(const Tensor& x, const Tensor& weight) const;
  /// cross_entropy() of such logits.
  virtual Tensor cross_entropy(Tensor logits, const Tensor& targets,
                               const CrossEntropyOptions& options) const;

 private:
  std::shared_ptr<Stages> stages_;
  std::shared_ptr<const ContextPart> context_;
};

}  // namespace ringtape
