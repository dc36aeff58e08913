#include "dist/model_parts.h"

#include <map>
#include <string>

#include "core/error.h"
#include "dist/parameter_name.h"

namespace ringtape {
namespace {

/// Each rank's shard of a parameter, and the number of elements of its part.
struct PartsOfRanks {
  PartsOfRanks(const Shape& whole, const ParameterShard& own, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      shards.push_back(own);
      shards.back().rank = rank;
      counts.push_back(part_shape(whole, shards.back()).elements());
    }
  }
  std::vector<ParameterShard> shards;
  std::vector<std::int64_t> counts;
};

/// The shards of the model's parameters by name.
std::map<std::string, const ParameterShard*> shards_of(Module& model) {
  std::map<std::string, const ParameterShard*> shards;
  for (const NamedParameter& parameter : model.named_parameters()) {
    shards[parameter.name] = shard_of(*parameter.tensor);
  }
  return shards;
}

/// The shard of the parameter whose tensor has this name, or null.
const ParameterShard* shard_of_name(const std::map<std::string, const ParameterShard*>& shards,
                                    const std::string& name) {
  const std::size_t begin =
      begin_of_parameter(name, [&](const std::string& end) { return shards.contains(end); });
  return begin == std::string::npos ? nullptr : shards.at(name.substr(begin));
}

void broadcast_from_first(const Tensor& tensor, Communicator& comm) {
  Tensor on_device = copy_to(tensor.detach(), comm.device());
  comm.broadcast(on_device, 0).wait();
  if (tensor.device() == comm.device()) return;
  Tensor target = tensor.detach();
  target.copy_from(on_device);
}

}  // namespace

Tensor gather_whole(const Tensor& part, const ParameterShard& shard, Communicator& comm) {
  const bool is_root = comm.rank() == 0;
  const Shape shape = whole_shape(part.shape(), shard);
  const PartsOfRanks parts(shape, shard, comm.size());
  const Tensor all = is_root ? empty({shape.elements()}, part.dtype(), comm.device()) : Tensor();
  comm.gather(copy_to(part.detach(), comm.device()), all, 0, parts.counts).wait();
  if (!is_root) return {};
  const Tensor whole = empty(shape, part.dtype()), on_host = copy_to(all, Device{});
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < parts.shards.size(); ++rank) {
    copy_into(whole, on_host.alias(part_shape(shape, parts.shards[rank]), first), parts.shards[rank]);
    first += parts.counts[rank];
  }
  return whole;
}

void scatter_whole(const Tensor& whole, const Tensor& part, const ParameterShard& shard, Communicator& comm) {
  const PartsOfRanks parts(whole_shape(part.shape(), shard), shard, comm.size());
  Tensor all;
  if (comm.rank() == 0) {
    all = empty({whole.elements()}, whole.dtype());
    std::int64_t first = 0;
    for (std::size_t rank = 0; rank < parts.shards.size(); ++rank) {
      Tensor place = all.alias({parts.counts[rank]}, first);
      place.copy_from(part_of(whole, parts.shards[rank]).alias({parts.counts[rank]}));
      first += parts.counts[rank];
    }
    all = copy_to(all, comm.device());
  }
  Tensor received = empty(part.shape(), part.dtype(), comm.device());
  comm.scatter(all, received, 0, parts.counts).wait();
  Tensor target = part.detach();
  target.copy_from(received);
}

std::vector<NamedTensor> gather_wholes(Module& model, const std::vector<NamedTensor>& parts,
                                       Communicator& comm) {
  const auto shards = shards_of(model);
  std::vector<NamedTensor> wholes;
  for (const auto& [name, tensor] : parts) {
    const ParameterShard* const shard = shard_of_name(shards, name);
    wholes.push_back({name, shard == nullptr ? tensor : gather_whole(tensor, *shard, comm)});
  }
  return wholes;
}

void scatter_wholes(Module& model, const std::vector<NamedTensor>& wholes,
                    const std::vector<NamedTensor>& parts, Communicator& comm) {
  const auto shards = shards_of(model);
  check(wholes.size() == parts.size(), "scatter_wholes: {} tensors for {} parts", wholes.size(),
        parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (const ParameterShard* const shard = shard_of_name(shards, parts[i].name)) {
      scatter_whole(wholes[i].tensor, parts[i].tensor, *shard, comm);
    } else {
      broadcast_from_first(parts[i].tensor, comm);
    }
  }
}

ModelDivision division_over(const std::shared_ptr<Communicator>& comm, bool sequence) {
  return {.rank = comm->rank(),
          .sum = all_reduce_over(comm, ReduceOp::sum),
          .max = all_reduce_over(comm, ReduceOp::max),
          .gradients_are_parts = sequence};
}

}  // namespace ringtape
