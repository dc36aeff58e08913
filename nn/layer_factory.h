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

/// Makes the layers of a model that ranks can divide between them, and the operations around these layers.
/// This base class divides nothing: it is for one rank, or ranks that each have the whole model.
/// TensorParallelFactory (dist/tensor_parallel.h) divides the layers.
///
/// A rank's part of a layer has the name of the whole layer and, element for element, its initial values.
class LayerFactory {
 public:
  virtual ~LayerFactory() = default;

  /// The number of ranks that divide the layers, and this rank's number among them.
  virtual int ranks() const { return 1; }
  virtual int rank() const { return 0; }
  /// The pipeline stages, of which this rank has one, for a model that is a chain of units; null without a
  /// pipeline.
  Stages* stages() const { return stages_.get(); }
  void set_stages(std::shared_ptr<Stages> stages) { stages_ = std::move(stages); }
  /// The tokens of each sequence that this rank has (context parallelism); null if it has all.
  const std::shared_ptr<const ContextPart>& context() const { return context_; }
  void set_context(std::shared_ptr<const ContextPart> context) { context_ = std::move(context); }
  /// Whether a rank has only part of the model or of its sequences.
  bool divides() const { return ranks() > 1 || stages_ != nullptr || context_ != nullptr; }
  /// A rank's number of the `count` items, such as heads. Throws Error that names `what` and the nearest
  /// possible number of ranks if the items cannot be divided equally.
  virtual std::int64_t part_of(const char* what, std::int64_t count) const;

  /// A Linear divided by its outputs, which consist of `blocks`: a rank computes its part of each block.
  virtual std::shared_ptr<Module> column_linear(std::int64_t in, const std::vector<std::int64_t>& blocks,
                                                bool with_bias = true) const;
  /// A Linear divided by its inputs, as column_linear() leaves them; every rank gets all outputs, with
  /// sequence parallelism only for its tokens.
  virtual std::shared_ptr<Module> row_linear(std::int64_t in, std::int64_t out, bool with_bias = true) const;

  /// Dropout between these layers: of values that every rank has, or, where ranks divide the tokens, of this
  /// rank's tokens.
  virtual std::shared_ptr<Module> dropout(double p) const;

  /// `table`, an Embedding or an output layer without a bias, with the rows of its "weight" divided.
  virtual std::shared_ptr<Module> by_vocabulary(std::shared_ptr<Module> table) { return table; }
  /// embedding() of all tokens with such a weight.
  virtual Tensor embed(const Tensor& tokens, const Tensor& weight, const Tensor& positions,
                       std::int64_t first_position) const;
  /// The logits of x [.., C] with such a weight, for an output layer that is tied to the embedding: those of
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
