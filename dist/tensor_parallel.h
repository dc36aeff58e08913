#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "nn/layer_factory.h"

namespace ringtape {

/// The layers of a model that the ranks of `comm` divide (tensor parallelism; Shoeybi et al., "Megatron-LM:
/// Training multi-billion parameter language models using model parallelism", 2019): the outputs of the first
/// of two linear layers and so the inputs of the second, the heads of attention, the vocabulary. All else is
/// replicated. docs/parallel.md has the picture.
///
/// Make one factory for each model. All ranks must make the same model, with equal seeds, and give it the
/// same inputs. A divided weight is then a part of the weight that one rank would have, and a step changes
/// the parts as it would change the whole.
class TensorParallelFactory : public LayerFactory {
 public:
  /// With `sequence`, sequence parallelism (dist/sequence_parallel_ops.h), for a model of tokens: outside of
  /// the divided layers a rank has its part of each sequence instead of all of it. `all_ranks`: the number of
  /// ranks along tensor x data, so that errors suggest a number of tensor ranks that divides it; 0: comm's
  /// size.
  explicit TensorParallelFactory(std::shared_ptr<Communicator> comm, bool sequence = false, int all_ranks = 0)
      : comm_(std::move(comm)), sequence_(sequence), all_ranks_(all_ranks > 0 ? all_ranks : comm_->size()) {}

  int ranks() const override { return comm_->size(); }
  int rank() const override { return comm_->rank(); }
  std::int64_t part_of(const char* what, std::int64_t count) const override;
  std::shared_ptr<Module> column_linear(std::int64_t in, const std::vector<std::int64_t>& blocks,
                                        bool with_bias) const override;
  std::shared_ptr<Module> row_linear(std::int64_t in, std::int64_t out, bool with_bias) const override;
  std::shared_ptr<Module> dropout(double p) const override;
  std::shared_ptr<Module> by_vocabulary(std::shared_ptr<Module> table) override;
  Tensor embed(const Tensor& tokens, const Tensor& weight, const Tensor& positions,
               std::int64_t first_position) const override;
  Tensor logits(const Tensor& x, const Tensor& weight) const override;
  Tensor cross_entropy(Tensor logits, const Tensor& targets,
                       const CrossEntropyOptions& options) const override;

 private:
  void check_at_most(std::int64_t most, const std::string& what) const;

  std::shared_ptr<Communicator> comm_;
  bool sequence_;
  int all_ranks_;
  std::int64_t vocabulary_ = 0;  // of the model's tables
};

}  // namespace ringtape
