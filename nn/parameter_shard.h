#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "nn/module.h"

/// Parameters that tensor-parallel ranks divide (docs/parallel.md): every rank has a part of each.
namespace ringtape {

/// Which part of a parameter this rank has. Along dimension `dim` the parameter consists of blocks, and the
/// rank has part `rank` of `ranks` of each block. The rows of a linear layer for queries, keys and values are
/// three blocks, for example, so that a rank has whole heads of each.
struct ParameterShard {
  int dim = 0;
  std::vector<std::int64_t> blocks;  ///< their sizes along `dim`; together the size of the whole parameter
  int rank = 0;
  int ranks = 1;
};

/// Elements `first` to first + count - 1 of a block.
struct PartOfBlock {
  std::int64_t first;
  std::int64_t count;
};
/// Part `rank` of a block of `size` elements. Parts differ by at most one element, and the last is the
/// largest.
PartOfBlock part_of_block(std::int64_t size, int rank, int ranks);

/// The shape of a rank's part of a parameter of shape `whole`, and the shape of the whole parameter for a
/// `part`.
Shape part_shape(const Shape& whole, const ParameterShard& shard);
Shape whole_shape(const Shape& part, const ParameterShard& shard);
/// A copy of the part of `whole`. Throws Error unless `whole` is on the CPU and has the blocks' size.
Tensor part_of(const Tensor& whole, const ParameterShard& shard);
/// Writes `part` to its place in `whole`. Throws Error unless both are on the CPU and their shapes match.
void copy_into(const Tensor& whole, const Tensor& part, const ParameterShard& shard);

/// The shard of a parameter; null if every rank has the whole parameter.
const ParameterShard* shard_of(const Tensor& parameter);
/// The shape of the parameter, or of the whole parameter of which it is a part.
Shape whole_shape_of(const Tensor& parameter);
/// Elements of the largest part of the parameter, which the last rank has. The same on all ranks.
std::int64_t largest_part(const Tensor& parameter);
/// Overwrites a parameter with `whole`, or with this rank's part of it.
void load_whole(Tensor& parameter, const Tensor& whole);
/// Elements of all parameters of the model, including the parts of other ranks.
std::int64_t whole_elements(Module& model);
/// Overwrites the parameters of `model`, of which this rank may have parts, with those of `whole`, the same
/// model undivided.
void load_whole(Module& model, Module& whole);

}  // namespace ringtape
