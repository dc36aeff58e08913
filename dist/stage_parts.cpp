#include "dist/stage_parts.h"

#include <algorithm>
#include <string>

#include "autograd/creation.h"
#include "dist/parameter_name.h"

namespace ringtape {
namespace {

/// Every stage has the same groups in the same order: a tensor for each parameter, under a prefix, or a
/// single tensor.
struct Group {
  std::string name;  ///< the prefix, or the tensor's name
  bool is_by_parameter;
  bool operator==(const Group&) const = default;
};

/// The prefix before the name of one of `parameters`, or a tensor that belongs to none of them.
Group group_of(const std::string& name, const std::vector<std::string>& parameters) {
  const std::size_t begin = begin_of_parameter(name, [&](const std::string& end) {
    return std::find(parameters.begin(), parameters.end(), end) != parameters.end();
  });
  if (begin == std::string::npos) return {name, false};
  return {name.substr(0, begin), true};
}

std::vector<Group> groups_of(const std::vector<NamedTensor>& tensors,
                             const std::vector<std::string>& parameters) {
  std::vector<Group> groups;
  for (const NamedTensor& each : tensors) {
    const Group group = group_of(each.name, parameters);
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

/// Copies `from` on rank `sender` to `to` on rank `receiver`, which may be the same.
void move(const Tensor& from, int sender, const Tensor& to, int receiver, Communicator& comm) {
  if (comm.rank() == sender && sender == receiver) {
    Tensor target = to.detach();
    if (target.raw() != from.raw()) target.copy_from(from);
  } else if (comm.rank() == sender) {
    comm.exchange({{copy_to(from.detach(), comm.device()), receiver}}, {}).wait();
  } else if (comm.rank() == receiver) {
    const Tensor received = empty(to.shape(), to.dtype(), comm.device());
    comm.exchange({}, {{received, sender}}).wait();
    Tensor target = to.detach();
    target.copy_from(received);
  }
}

/// Calls body(i, j) for the parameters of `stage`: i is their place in the arena of the whole model, j in the
/// stage's.
template <class Body>
void for_each_entry(const Stages& stages, int stage, const Body& body) {
  const std::vector<std::string> own = stages.names_of(stage);
  const std::int64_t all = std::ssize(stages.parameters());
  for (std::int64_t i = 0; i < all; ++i) {
    const std::string& name = stages.parameters()[static_cast<std::size_t>(all - 1 - i)].name;
    const auto found = std::find(own.rbegin(), own.rend(), name);
    if (found != own.rend()) body(i, found - own.rbegin());
  }
}

/// True for a tensor with an element for each parameter.
bool is_by_entry(const Tensor& tensor) {
  return tensor.dims() == 1;
}

}  // namespace

std::vector<NamedTensor> gather_stages(const Stages& stages, const std::vector<NamedTensor>& own,
                                       Communicator& comm) {
  const int rank = comm.rank();
  const bool is_first = rank == 0;
  std::vector<NamedTensor> all;
  for (const Group& group : groups_of(own, stages.names_of(rank))) {
    if (group.is_by_parameter) {
      const DType dtype = tensor_named(own, group.name + stages.names_of(rank).front()).dtype();
      for (const Stages::Parameter& parameter : stages.parameters()) {
        const std::string name = group.name + parameter.name;
        const Tensor from = rank == parameter.stage ? tensor_named(own, name) : Tensor();
        if (!is_first || parameter.stage == 0) {
          all.push_back({name, from});
        } else {
          all.push_back({name, empty(parameter.shape, dtype)});
        }
        if (parameter.stage != 0) move(from, parameter.stage, all.back().tensor, 0, comm);
      }
      continue;
    }
    const Tensor& of_stage = tensor_named(own, group.name);
    all.push_back({group.name, of_stage});
    if (!is_by_entry(of_stage)) continue;
    const Tensor whole = empty({std::ssize(stages.parameters())}, of_stage.dtype());
    for (int stage = 0; stage < comm.size(); ++stage) {
      const Tensor part = empty({std::ssize(stages.names_of(stage))}, of_stage.dtype());
      move(of_stage, stage, part, 0, comm);
      for_each_entry(stages, stage, [&](std::int64_t i, std::int64_t j) {
        whole.alias({1}, i).copy_from(part.alias({1}, j));
      });
    }
    all.back().tensor = whole;
  }
  return is_first ? all : own;
}

void scatter_stages(const Stages& stages, const std::vector<NamedTensor>& all,
                    const std::vector<NamedTensor>& own, Communicator& comm) {
  const int rank = comm.rank();
  const auto of_whole = [&](const std::string& name) {
    return rank == 0 ? tensor_named(all, name) : Tensor();
  };
  for (const Group& group : groups_of(own, stages.names_of(rank))) {
    if (group.is_by_parameter) {
      for (int stage = 0; stage < comm.size(); ++stage) {
        for (const std::string& name : stages.names_of(stage)) {
          const std::string full = group.name + name;
          move(of_whole(full), 0, rank == stage ? tensor_named(own, full) : Tensor(), stage, comm);
        }
      }
      continue;
    }
    const Tensor& of_stage = tensor_named(own, group.name);
    for (int stage = 0; stage < comm.size(); ++stage) {
      Tensor part = of_whole(group.name);
      if (is_by_entry(of_stage) && rank == 0) {
        const Tensor whole = copy_to(part, Device{});
        part = empty({std::ssize(stages.names_of(stage))}, whole.dtype());
        for_each_entry(stages, stage, [&](std::int64_t i, std::int64_t j) {
          part.alias({1}, j).copy_from(whole.alias({1}, i));
        });
      }
      move(part, 0, of_stage, stage, comm);
    }
  }
}

}  // namespace ringtape
