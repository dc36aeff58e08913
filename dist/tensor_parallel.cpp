#include "dist/tensor_parallel.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "autograd/tape.h"
#include "core/divisors.h"
#include "core/error.h"
#include "core/numbers.h"
#include "dist/sequence_parallel_ops.h"
#include "dist/tensor_parallel_ops.h"
#include "nn/layers.h"
#include "nn/parameter_shard.h"

namespace ringtape {
namespace {

/// The border between divided and undivided layers: how activations cross it.
struct Border {
  std::shared_ptr<Communicator> comm;
  bool sequence;

  Tensor enter(const Tensor& x) const {
    return sequence ? all_gather_tokens(x, comm) : copy_to_region(x, comm);
  }
  Tensor leave(const Tensor& x, const Tensor& added) const {
    return sequence ? reduce_scatter_tokens(x, added, comm) : reduce_from_region(x, added, comm);
  }
};

/// A module whose parameters are parts of another module's.
class PartModule : public Module {
 protected:
  /// The part of a parameter of `whole`, under the same name.
  Tensor& register_part(Module& whole, const std::string& name, ParameterShard shard) {
    Tensor& part = register_parameter(name, part_of(whole.parameter(name), shard));
    part.autograd->shard = std::make_shared<const ParameterShard>(std::move(shard));
    return part;
  }
};

/// y = x weight^T + bias for a part of the rows of weight and bias: x is equal on all ranks, and each rank
/// has a part of the columns of y.
class ColumnLinear : public PartModule {
 public:
  ColumnLinear(std::int64_t in, const std::vector<std::int64_t>& blocks, bool with_bias, const Border& border)
      : border_(border) {
    const Communicator& comm = *border.comm;
    Linear whole(in, std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}), with_bias);
    const ParameterShard rows{.dim = 0, .blocks = blocks, .rank = comm.rank(), .ranks = comm.size()};
    weight_ = &register_part(whole, "weight", rows);
    if (with_bias) bias_ = &register_part(whole, "bias", rows);
  }
  Tensor forward(const Tensor& x) override {
    return linear(border_.enter(x), *weight_, bias_ == nullptr ? Tensor() : *bias_);
  }

 private:
  Border border_;
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

/// y = x weight^T + bias for a part of the columns of weight, and so of x: each rank's product is an addend
/// of the sum over the ranks, and y and bias are equal on all ranks.
class RowLinear : public PartModule {
 public:
  RowLinear(std::int64_t in, std::int64_t out, bool with_bias, const Border& border) : border_(border) {
    Linear whole(in, out, with_bias);
    weight_ =
        &register_part(whole, "weight",
                       {.dim = 1, .blocks = {in}, .rank = border.comm->rank(), .ranks = border.comm->size()});
    if (with_bias) bias_ = &register_parameter("bias", whole.parameter("bias").detach());
  }
  Tensor forward(const Tensor& x) override {
    return border_.leave(linear(x, *weight_), bias_ == nullptr ? Tensor() : *bias_);
  }

 private:
  Border border_;
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

/// A part of the rows of an embedding table or an output layer; forward() computes the logits of these rows.
class VocabularyPart : public PartModule {
 public:
  VocabularyPart(Module& table, const Border& border) : border_(border) {
    const std::int64_t tokens = table.parameter("weight").size(0);
    const int rank = border.comm->rank(), ranks = border.comm->size();
    weight_ = &register_part(table, "weight", {.dim = 0, .blocks = {tokens}, .rank = rank, .ranks = ranks});
  }
  Tensor forward(const Tensor& x) override { return linear(border_.enter(x), *weight_); }

 private:
  Border border_;
  Tensor* weight_;
};

}  // namespace

std::int64_t TensorParallelFactory::part_of(const char* what, std::int64_t count) const {
  check(count % ranks() == 0,
        "--tensor-parallel {}: does not divide {} {}, the nearest that divides both them and the ranks is {}",
        ranks(), count, what, nearest_divisor(std::gcd(count, std::int64_t{all_ranks_}), ranks()));
  return count / ranks();
}

/// Checks that each rank gets at least one of `most` outputs or tokens.
void TensorParallelFactory::check_at_most(std::int64_t most, const std::string& what) const {
  check(ranks() <= most,
        "--tensor-parallel {}: {}, expected at most {}, the nearest that divides the ranks "
        "is {}",
        ranks(), what, most, nearest_divisor(all_ranks_, ranks(), most));
}

std::shared_ptr<Module> TensorParallelFactory::column_linear(std::int64_t in,
                                                             const std::vector<std::int64_t>& blocks,
                                                             bool with_bias) const {
  for (const std::int64_t block : blocks) {
    check_at_most(block, fmt::format("a layer of {} cannot be divided", counted(block, "output")));
  }
  return std::make_shared<ColumnLinear>(in, blocks, with_bias, Border{comm_, sequence_});
}

std::shared_ptr<Module> TensorParallelFactory::row_linear(std::int64_t in, std::int64_t out,
                                                          bool with_bias) const {
  return std::make_shared<RowLinear>(in, out, with_bias, Border{comm_, sequence_});
}

std::shared_ptr<Module> TensorParallelFactory::dropout(double p) const {
  if (!sequence_) return LayerFactory::dropout(p);
  return std::make_shared<TokenDropout>(p, context(), rank(), ranks());
}

std::shared_ptr<Module> TensorParallelFactory::by_vocabulary(std::shared_ptr<Module> table) {
  vocabulary_ = table->parameter("weight").size(0);
  check_at_most(vocabulary_, fmt::format("a vocabulary of {} has too few tokens", vocabulary_));
  return std::make_shared<VocabularyPart>(*table, Border{comm_, sequence_});
}

Tensor TensorParallelFactory::embed(const Tensor& tokens, const Tensor& weight, const Tensor& positions,
                                    std::int64_t first_position) const {
  const TablePart part{.first_token = part_of_block(vocabulary_, rank(), ranks()).first,
                       .all_tokens = vocabulary_};
  check(first_position == 0, "tensor parallel: positions begin at 0, found {}", first_position);
  return Border{comm_, sequence_}.leave(embedding(tokens, weight, {}, 0, part), positions);
}

Tensor TensorParallelFactory::logits(const Tensor& x, const Tensor& weight) const {
  return linear(Border{comm_, sequence_}.enter(x), weight);
}

Tensor TensorParallelFactory::cross_entropy(Tensor logits, const Tensor& targets,
                                            const CrossEntropyOptions& options) const {
  const PartOfBlock own = part_of_block(vocabulary_, rank(), ranks());
  check(logits.defined() && logits.size(-1) == own.count,
        "tensor parallel: found logits {}, expected those of {} classes, a part of {}", describe(logits),
        own.count, vocabulary_);
  return cross_entropy_of_parts(std::move(logits), targets, own.first, vocabulary_, options, comm_);
}

}  // namespace ringtape
