#pragma once

#include <array>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// What the ranks of a dimension divide between them. In this order: neighbouring ranks, which are most often
/// on one machine, differ in the first, which communicates most.
enum class MeshDimension { tensor, context, data, pipeline };
inline constexpr std::size_t kMeshDimensions = 4;
const char* name_of(MeshDimension dimension);

/// Ranks along each dimension.
struct MeshSizes {
  int tensor = 1;
  int context = 1;
  int data = 1;
  int pipeline = 1;

  int along(MeshDimension dimension) const;
  int ranks() const { return tensor * context * data * pipeline; }
  /// Ranks with the same part of the model: Mesh::data_and_context().
  int data_and_context() const { return context * data; }
  /// Whether ranks have parts of the model's layers.
  bool divide_layers() const { return tensor > 1; }
  bool operator==(const MeshSizes&) const = default;
};

/// The sizes of a mesh of `ranks` ranks, in which the dimensions but data have the sizes of `wanted` and data
/// the rest. Throws Error that names the flag of a size that does not divide the ranks, and the nearest that
/// does.
MeshSizes mesh_of(int ranks, const MeshSizes& wanted);

/// The place of a rank along each dimension, by MeshDimension.
std::array<int, kMeshDimensions> place_in(const MeshSizes& sizes, int rank);

/// A table of the ranks: a column for each place along the tensor dimension, and a row for each of the
/// others.
std::string draw_mesh(const MeshSizes& sizes);

/// Ranks with names: a grid with a dimension for each way of dividing the work, and a communicator for each
/// group of ranks that differ along one (docs/parallel.md).
class Mesh {
 public:
  /// Splits `world`; all ranks must call it. Throws Error for sizes of another number of ranks.
  Mesh(std::shared_ptr<Communicator> world, const MeshSizes& sizes);

  const MeshSizes& sizes() const { return sizes_; }
  const std::shared_ptr<Communicator>& world() const { return world_; }
  /// The ranks that differ from this one only along `dimension`.
  const std::shared_ptr<Communicator>& along(MeshDimension dimension) const {
    return groups_[static_cast<std::size_t>(dimension)];
  }
  /// The ranks that have the same part of the model (Megatron's data-parallel group with context parallel).
  /// Gradients and losses are means over them.
  const std::shared_ptr<Communicator>& data_and_context() const { return data_and_context_; }

 private:
  MeshSizes sizes_;
  std::shared_ptr<Communicator> world_;
  std::array<std::shared_ptr<Communicator>, kMeshDimensions> groups_;
  std::shared_ptr<Communicator> data_and_context_;
};

}  // namespace ringtape
