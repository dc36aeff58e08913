#include "dist/optimizer_state.h"

#include <algorithm>

#include "autograd/creation.h"
#include "dist/parameter_name.h"
#include "nn/model_file.h"

namespace ringtape {
namespace {

/// True for a moment or a momentum, false for step counts, which have one element per parameter.
bool is_per_element(const Tensor& state) {
  return state.dtype() == DType::f32;
}

/// Calls body(bucket, own slice) for each bucket of the arena. The slice is a part of `shard`.
template <class Body>
void for_each_bucket(const ParameterArena& arena, const Tensor& shard, const Body& body) {
  for (std::size_t b = 0; b < arena.buckets().size(); ++b) {
    const ShardSlice& slice = arena.slices()[b];
    body(arena.buckets()[b], shard.alias({slice.elements}, slice.in_shard));
  }
}

/// One sharded tensor as a whole, on the host of rank 0; undefined on other ranks.
Tensor gather(const ParameterArena& arena, Communicator& comm, const Tensor& shard) {
  const bool is_root = comm.rank() == 0;
  Tensor whole = is_root ? zeros({arena.size()}, shard.dtype()) : Tensor();
  for_each_bucket(arena, shard, [&](const GradientBucket& bucket, const Tensor& slice) {
    const Tensor on_device = is_root ? empty({bucket.elements}, shard.dtype(), arena.device()) : Tensor();
    comm.gather(slice, on_device, 0).wait();
    if (is_root) whole.alias({bucket.elements}, bucket.offset).copy_from(on_device);
  });
  return whole;
}

void append_by_parameter(const ParameterArena& arena, const std::string& name, const Tensor& whole,
                         std::vector<NamedTensor>& parts) {
  for (const ArenaEntry& entry : arena.entries()) {
    parts.push_back({name + "." + entry.name, whole.alias(entry.tensor->shape(), entry.offset)});
  }
}

/// The parts with this name, in the arena's layout, on the host.
Tensor joined(const ParameterArena& arena, const std::string& name, const std::vector<NamedTensor>& parts) {
  const Tensor whole = zeros({arena.size()});
  for (const ArenaEntry& entry : arena.entries()) {
    whole.alias(entry.tensor->shape(), entry.offset).copy_from(tensor_named(parts, name + "." + entry.name));
  }
  return whole;
}

/// The opposite of gather(): `whole` has the arena's layout on rank 0, and is undefined on other ranks.
void scatter(const ParameterArena& arena, Communicator& comm, const Tensor& whole, const Tensor& shard) {
  const bool is_root = comm.rank() == 0;
  for_each_bucket(arena, shard, [&](const GradientBucket& bucket, const Tensor& slice) {
    const Tensor on_device =
        is_root ? copy_to(whole.alias({bucket.elements}, bucket.offset), arena.device()) : Tensor();
    comm.scatter(on_device, slice, 0).wait();
  });
}

/// Step counts in the order of files (ArenaEntry::number).
Tensor in_file_order(const ParameterArena& arena, const Tensor& counts) {
  if (arena.has_all_values()) return counts;
  const Tensor by_entry = copy_to(counts, Device{}), result = empty(counts.shape(), counts.dtype());
  for (std::size_t i = 0; i < arena.entries().size(); ++i) {
    const auto number = static_cast<std::int64_t>(arena.entries()[i].number);
    result.alias({1}, number).copy_from(by_entry.alias({1}, static_cast<std::int64_t>(i)));
  }
  return result;
}

/// The opposite of in_file_order().
void set_from_file_order(const ParameterArena& arena, Tensor counts, const Tensor& in_file) {
  const Tensor by_entry = empty(counts.shape(), counts.dtype());
  for (std::size_t i = 0; i < arena.entries().size(); ++i) {
    const auto number = static_cast<std::int64_t>(arena.entries()[i].number);
    by_entry.alias({1}, static_cast<std::int64_t>(i)).copy_from(in_file.alias({1}, number));
  }
  counts.copy_from(by_entry);
}

}  // namespace

std::vector<NamedTensor> gather_optimizer_state(const Optimizer& optimizer, Communicator& comm) {
  const ParameterArena& arena = optimizer.arena();
  std::vector<NamedTensor> parts;
  for (const auto& [name, state] : optimizer.state()) {
    if (!is_per_element(state)) {
      parts.push_back({name, in_file_order(arena, state)});  // the same on all ranks
      continue;
    }
    const Tensor whole = arena.is_sharded() ? gather(arena, comm, state) : state;
    if (whole.defined()) append_by_parameter(arena, name, whole, parts);
  }
  return parts;
}

std::vector<NamedTensor> gather_weights(Module& model, const ParameterArena& arena, Communicator& comm) {
  arena.gather_values();
  std::vector<NamedTensor> weights = weights_of(model);
  if (arena.has_all_values()) return weights;
  const Tensor whole = gather(arena, comm, arena.values());
  for (const ArenaEntry& entry : arena.entries()) {
    const auto found = std::find_if(weights.begin(), weights.end(), [&](const NamedTensor& candidate) {
      return candidate.name == entry.name;
    });
    found->tensor = whole.defined() ? whole.alias(entry.tensor->shape(), entry.offset) : Tensor();
  }
  return weights;
}

void scatter_optimizer_state(const Optimizer& optimizer, Communicator& comm,
                             const std::vector<NamedTensor>& whole) {
  const ParameterArena& arena = optimizer.arena();
  for (const auto& [name, state] : optimizer.state()) {
    if (!is_per_element(state) && !arena.has_all_values() && comm.rank() == 0) {
      set_from_file_order(arena, state, tensor_named(whole, name));
    }
    if (!is_per_element(state) || !arena.is_sharded()) {
      comm.broadcast(state, 0).wait();
      continue;
    }
    scatter(arena, comm, comm.rank() == 0 ? joined(arena, name, whole) : Tensor(), state);
  }
}

}  // namespace ringtape
