#include "nn/parameter_shard.h"

#include <cstring>
#include <numeric>

#include "autograd/tape.h"
#include "core/error.h"

namespace ringtape {
namespace {

std::int64_t whole_size(const ParameterShard& shard) {
  return std::accumulate(shard.blocks.begin(), shard.blocks.end(), std::int64_t{0});
}

std::int64_t part_size(const ParameterShard& shard) {
  std::int64_t size = 0;
  for (const std::int64_t block : shard.blocks) size += part_of_block(block, shard.rank, shard.ranks).count;
  return size;
}

/// Calls body(offset in the whole, offset in the part, length), in bytes, for each contiguous piece.
template <class Body>
void for_each_piece(const Shape& whole, std::size_t element, const ParameterShard& shard, const Body& body) {
  std::int64_t outer = 1, inner = static_cast<std::int64_t>(element);
  for (int i = 0; i < shard.dim; ++i) outer *= whole[i];
  for (int i = shard.dim + 1; i < whole.dims(); ++i) inner *= whole[i];
  std::int64_t in_part = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    std::int64_t block_first = o * whole_size(shard);
    for (const std::int64_t block : shard.blocks) {
      const PartOfBlock own = part_of_block(block, shard.rank, shard.ranks);
      body((block_first + own.first) * inner, in_part, own.count * inner);
      in_part += own.count * inner;
      block_first += block;
    }
  }
}

std::byte* bytes(const Tensor& tensor) {
  return static_cast<std::byte*>(tensor.raw());
}

}  // namespace

PartOfBlock part_of_block(std::int64_t size, int rank, int ranks) {
  const std::int64_t first = size * rank / ranks;
  return {first, size * (rank + 1) / ranks - first};
}

Shape part_shape(const Shape& whole, const ParameterShard& shard) {
  return whole.with(shard.dim, part_size(shard));
}

Shape whole_shape(const Shape& part, const ParameterShard& shard) {
  return part.with(shard.dim, whole_size(shard));
}

Tensor part_of(const Tensor& whole, const ParameterShard& shard) {
  check(whole.device().is_cpu() && whole.size(shard.dim) == whole_size(shard),
        "parameter shard: found {}, expected a parameter on the CPU with {} in dimension {}", describe(whole),
        whole_size(shard), shard.dim);
  Tensor part = empty(part_shape(whole.shape(), shard), whole.dtype());
  for_each_piece(whole.shape(), size_of(whole.dtype()), shard,
                 [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t length) {
                   std::memcpy(bytes(part) + in_part, bytes(whole) + in_whole,
                               static_cast<std::size_t>(length));
                 });
  return part;
}

void copy_into(const Tensor& whole, const Tensor& part, const ParameterShard& shard) {
  check(part.device().is_cpu() && whole.device().is_cpu() && part.dtype() == whole.dtype() &&
            part.shape() == part_shape(whole.shape(), shard),
        "parameter shard: {} is not a part of {}", describe(part), describe(whole));
  for_each_piece(whole.shape(), size_of(whole.dtype()), shard,
                 [&](std::int64_t in_whole, std::int64_t in_part, std::int64_t length) {
                   std::memcpy(bytes(whole) + in_whole, bytes(part) + in_part,
                               static_cast<std::size_t>(length));
                 });
}

const ParameterShard* shard_of(const Tensor& parameter) {
  return parameter.autograd == nullptr ? nullptr : parameter.autograd->shard.get();
}

Shape whole_shape_of(const Tensor& parameter) {
  const ParameterShard* const shard = shard_of(parameter);
  return shard == nullptr ? parameter.shape() : whole_shape(parameter.shape(), *shard);
}

std::int64_t largest_part(const Tensor& parameter) {
  const ParameterShard* const shard = shard_of(parameter);
  if (shard == nullptr) return parameter.elements();
  ParameterShard last = *shard;
  last.rank = last.ranks - 1;
  return part_shape(whole_shape(parameter.shape(), *shard), last).elements();
}

void load_whole(Tensor& parameter, const Tensor& whole) {
  const ParameterShard* const shard = shard_of(parameter);
  parameter.copy_from(shard == nullptr ? whole : part_of(copy_to(whole.detach(), Device{}), *shard));
}

std::int64_t whole_elements(Module& model) {
  std::int64_t elements = 0;
  for (const NamedParameter& parameter : model.named_parameters()) {
    elements += whole_shape_of(*parameter.tensor).elements();
  }
  return elements;
}

void load_whole(Module& model, Module& whole) {
  for (const NamedParameter& parameter : model.named_parameters()) {
    load_whole(*parameter.tensor, whole.parameter(parameter.name));
  }
}

}  // namespace ringtape
