#pragma once

#include <memory>

#include "autograd/ops.h"
#include "dist/communicator.h"

/// The operations at the borders of a tensor-parallel region (Shoeybi et al., "Megatron-LM: Training
/// multi-billion parameter language models using model parallelism", 2019, whose f and g they are). Outside,
/// all ranks have equal values; inside, each computes with its part of the weights. Each operation is the
/// other's backward:
///
///                          forward      backward
///   copy_to_region, f      nothing      all-reduce   x is equal on all ranks, its gradient an addend
///   reduce_from_region, g  all-reduce   nothing      x is an addend, its gradient equal on all ranks
///
/// All ranks of `comm` must call them in the same order, also in backward.
namespace ringtape {

/// x; its gradient is the sum over the ranks.
Tensor copy_to_region(const Tensor& x, const std::shared_ptr<Communicator>& comm);

/// The sum of x [.., N] over the ranks, plus `added`, which is replicated: a bias [N], or positions [P, N],
/// of which row t is added to x[.., t, :]; undefined for none. x is overwritten.
Tensor reduce_from_region(const Tensor& x, const Tensor& added, const std::shared_ptr<Communicator>& comm);

/// cross_entropy() of logits that the ranks divide by class: this rank has [N, own], the classes from `first`
/// on, of `classes` in total. The loss is the same on every rank. No rank has the logits of all classes; the
/// ranks exchange three numbers per row (kernels/cross_entropy_shard.h). Throws Error for Reduction::mean,
/// since only the caller knows its divisor, and for label smoothing.
Tensor cross_entropy_of_parts(Tensor logits, const Tensor& targets, std::int64_t first, std::int64_t classes,
                              const CrossEntropyOptions& options, const std::shared_ptr<Communicator>& comm);

}  // namespace ringtape
