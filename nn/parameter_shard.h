#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "nn/module.h"

/// Parameters that ranks divide between them (tensor parallelism, docs/parallel.md): every rank has a part of
/// each.
namespace ringtape {

/// Which part of a parameter this rank has: of each of several blocks, which follow each other along a
/// dimension, part number `rank` of `ranks`. The rows of a linear layer for queries, keys and values are
/// three blocks: so a rank has whole heads of each.
struct ParameterShard {
  int dim = 0;
  std::vector<std::int64_t> blocks;  ///< their sizes along `dim`; together the size of the whole parameter
  int rank = 0;
  int ranks = 1;
};

/// Elements `first` to first + count - 1.
struct PartOfBlock {
  std::int64_t first;
  std::int64_t count;
};
/// Part `rank` of a block of `size` elements. Parts differ by one element at most, and the last is the
/// largest.
PartOfBlock part_of_block(std::int64_t size, int rank, int ranks);

/// The shape of a rank's part of a parameter of shape `whole`; and the shape of the whole parameter of a
/// `part`.
Shape part_shape(const Shape& whole, const ParameterShard& shard);
Shape whole_shape(const Shape& part, const ParameterShard& shard);
/// The part of `whole`, which is on the CPU.
Tensor part_of(const Tensor& whole, const ParameterShard& shard);
/// Writes `part` to its place in `whole`; both are on the CPU.
void copy_into(const Tensor& whole, const Tensor& part, const ParameterShard& shard);

/// The shard of a parameter; null for one that every rank has as a whole.
const ParameterShard* shard_of(const Tensor& parameter);
/// The shape of a parameter, or of the whole one of which it is a part.
Shape whole_shape_of(const Tensor& parameter);
/// Elements of the largest part that a rank has of a parameter: those of the last rank, equal on all ranks.
std::int64_t largest_part(const Tensor& parameter);
/// Overwrites a parameter with `whole`, or with its own part of it.
void load_whole(Tensor& parameter, const Tensor& whole);
/// Elements of all parameters of the model, counting the parts of other ranks.
std::int64_t whole_elements(Module& model);
/// Overwrites the parameters of `model`, of which ranks may have parts, with the parameters of `whole`, the
/// same model on one rank.
void load_whole(Module& model, Module& whole);

}  // namespace ringtape
