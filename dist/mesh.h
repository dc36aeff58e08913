#pragma once

#include <array>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace ringtape {

/// The dimensions of a mesh, by what their ranks divide. Neighbouring ranks, which are most often on one
/// machine, differ along the first dimension, which communicates most.
enum class MeshDimension { tensor, context, data, pipeline };
inline constexpr std::size_t kMeshDimensions = 4;
const char* name_of(MeshDimension dimension);

/// The number of ranks along each dimension.
struct MeshSizes {
  int tensor = 1;
  int context = 1;
  int data = 1;
  int pipeline = 1;

  int along(MeshDimension dimension) const;
  int ranks() const { return tensor * context * data * pipeline; }
  /// The number of ranks with the same part of the model: Mesh::data_and_context().
  int data_and_context() const { return context * data; }
  /// Whether ranks divide the model's layers (tensor parallelism).
  bool divide_layers() const { return tensor > 1; }
  bool operator==(const MeshSizes&) const = default;
};

/// The sizes of a mesh of `ranks` ranks: tensor, context and pipeline as in `wanted`, and data with the ranks
/// that remain. Throws Error for a size that does not divide the ranks; it names the flag and the nearest
/// size that does.
MeshSizes mesh_of(int ranks, const MeshSizes& wanted);

/// A rank's coordinate along each dimension, indexed by MeshDimension.
std::array<int, kMeshDimensions> coordinates_of(const MeshSizes& sizes, int rank);

/// A table of the ranks: a column for each coordinate along the tensor dimension, and a row for each
/// coordinate along the others.
std::string draw_mesh(const MeshSizes& sizes);

/// The ranks as a grid, with a dimension for each way to divide the work, and a communicator for each group
/// of ranks that differ along one dimension (docs/parallel.md), like PyTorch's DeviceMesh.
class Mesh {
 public:
  /// Splits `world`; all ranks must call it. Throws Error unless the product of the sizes is world's size.
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
