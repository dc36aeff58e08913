#include "dist/mesh.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/divisors.h"
#include "core/error.h"
#include "core/numbers.h"
#include "dist/self_communicator.h"

namespace ringtape {
namespace {

constexpr std::array kDimensions = {MeshDimension::tensor, MeshDimension::context, MeshDimension::data,
                                    MeshDimension::pipeline};

/// The communicator of the ranks that differ from this one only along `dimensions`.
std::shared_ptr<Communicator> split_along(const std::shared_ptr<Communicator>& world, const MeshSizes& sizes,
                                          const std::vector<MeshDimension>& dimensions) {
  std::array<int, kMeshDimensions> coordinates = coordinates_of(sizes, world->rank());
  int ranks = 1, number = 0, step = 1;
  for (const MeshDimension dimension : dimensions) ranks *= sizes.along(dimension);
  if (ranks == world->size()) return world;
  if (ranks == 1) return std::make_shared<SelfCommunicator>(world->device(), world->timeout());
  for (const MeshDimension dimension : dimensions) coordinates[static_cast<std::size_t>(dimension)] = 0;
  for (const MeshDimension dimension : kDimensions) {
    number += step * coordinates[static_cast<std::size_t>(dimension)];
    step *= sizes.along(dimension);
  }
  return world->split(number, world->rank());
}

/// "data 1, context 0": a rank's coordinate along each dimension of several ranks, except tensor.
std::string row_name(const MeshSizes& sizes, int rank) {
  std::string text;
  const std::array<int, kMeshDimensions> coordinates = coordinates_of(sizes, rank);
  for (const MeshDimension dimension :
       {MeshDimension::pipeline, MeshDimension::data, MeshDimension::context}) {
    if (sizes.along(dimension) == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(dimension),
                        coordinates[static_cast<std::size_t>(dimension)]);
  }
  return text;
}

}  // namespace

const char* name_of(MeshDimension dimension) {
  constexpr std::array kNames = {"tensor", "context", "data", "pipeline"};
  return kNames[static_cast<std::size_t>(dimension)];
}

int MeshSizes::along(MeshDimension dimension) const {
  return std::array{tensor, context, data, pipeline}[static_cast<std::size_t>(dimension)];
}

MeshSizes mesh_of(int ranks, const MeshSizes& wanted) {
  MeshSizes sizes = wanted;
  sizes.data = ranks;
  for (const MeshDimension dimension :
       {MeshDimension::tensor, MeshDimension::context, MeshDimension::pipeline}) {
    const int size = wanted.along(dimension);
    check(size >= 1 && sizes.data % size == 0,
          "--{}-parallel {}: expected a divisor of the {}{}, the nearest is {}", name_of(dimension), size,
          counted(sizes.data, "rank"), sizes.data < ranks ? " left" : "", nearest_divisor(sizes.data, size));
    sizes.data /= size;
  }
  return sizes;
}

std::array<int, kMeshDimensions> coordinates_of(const MeshSizes& sizes, int rank) {
  std::array<int, kMeshDimensions> coordinates{};
  for (const MeshDimension dimension : kDimensions) {
    coordinates[static_cast<std::size_t>(dimension)] = rank % sizes.along(dimension);
    rank /= sizes.along(dimension);
  }
  return coordinates;
}

std::string draw_mesh(const MeshSizes& sizes) {
  std::string text = counted(sizes.ranks(), "rank") + ":";
  for (const MeshDimension dimension :
       {MeshDimension::pipeline, MeshDimension::data, MeshDimension::context, MeshDimension::tensor}) {
    text += fmt::format("{} {} {}", dimension == MeshDimension::pipeline ? "" : " x", sizes.along(dimension),
                        name_of(dimension));
  }
  const std::size_t width = row_name(sizes, sizes.ranks() - 1).size();
  text += fmt::format("\n\n{:<{}}", "", width);
  for (int t = 0; t < sizes.tensor; ++t) text += fmt::format("  {:>9}", fmt::format("tensor {}", t));
  for (int rank = 0; rank < sizes.ranks(); ++rank) {
    if (rank % sizes.tensor == 0) text += fmt::format("\n{:<{}}", row_name(sizes, rank), width);
    text += fmt::format("  {:>9}", rank);
  }
  return text + "\n";
}

Mesh::Mesh(std::shared_ptr<Communicator> world, const MeshSizes& sizes)
    : sizes_(sizes), world_(std::move(world)) {
  check(sizes.ranks() == world_->size(), "mesh: sizes for {} ranks, found {}", sizes.ranks(), world_->size());
  world_->set_group("");  // of an earlier mesh
  for (const MeshDimension dimension : kDimensions) {
    std::shared_ptr<Communicator>& group = groups_[static_cast<std::size_t>(dimension)];
    group = split_along(world_, sizes_, {dimension});
    if (group->size() > 1) group->set_group(name_of(dimension));
  }
  data_and_context_ = sizes_.context == 1 ? along(MeshDimension::data)
                      : sizes_.data == 1
                          ? along(MeshDimension::context)
                          : split_along(world_, sizes_, {MeshDimension::data, MeshDimension::context});
  if (data_and_context_ != along(MeshDimension::data) && data_and_context_ != along(MeshDimension::context)) {
    data_and_context_->set_group("data and context");
  }
}

}  // namespace ringtape
