#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/mesh.h"

namespace ringtape {

/// The collectives that this rank has called on each communicator of a mesh since this object was made.
class MeshTraffic {
 public:
  /// The calls on all communicators with this name and number of ranks.
  struct Group {
    std::string name;  ///< Communicator::group()
    int ranks = 1;
    CollectiveCounts counts{};
  };

  /// Counts the calls on the communicators of the mesh, and of `others`, such as a pipeline's; null ones are
  /// left out.
  explicit MeshTraffic(const Mesh& mesh, const std::vector<std::shared_ptr<Communicator>>& others = {});

  /// The groups of all communicators with several ranks.
  std::vector<Group> groups() const;
  /// Bytes that this rank has sent, by the formulas of bytes_sent() (dist/traffic.h).
  double bytes_sent() const;
  /// A table (traffic_table() of dist/traffic.h) for each group with calls.
  std::string table() const;

 private:
  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::vector<CollectiveCounts> before_;
};

}  // namespace ringtape
