#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// The links between ranks.
namespace ringtape::planner {

/// One direction of a connection. A message of b bytes keeps it busy for b / bandwidth, and arrives after b /
/// bandwidth + latency (Hockney, "The communication challenge for MPP", 1994).
struct Link {
  double latency = 0;    ///< seconds
  double bandwidth = 0;  ///< bytes a second

  double busy(double bytes) const { return bytes / bandwidth; }
  double message(double bytes) const { return latency + busy(bytes); }
};

/// Nodes with the same number of ranks each. Ranks are numbered node by node.
struct Cluster {
  std::string name;
  std::int64_t ranks_per_node = 1;
  Link intra_node;     ///< out of a rank, to the other ranks of its node
  Link inter_node;     ///< out of a node, to the other nodes: all its adapters together
  double call = 0;     ///< seconds before the first byte of a collective moves
  std::string source;  ///< the source of the constants

  /// The number of nodes for this many ranks.
  std::int64_t nodes(std::int64_t ranks) const;
};

/// Throws Error for sizes, latencies and bandwidths out of range.
void check_cluster(const Cluster& cluster);
/// Throws Error unless the ranks are part of one node or fill whole nodes.
void check_ranks(const Cluster& cluster, std::int64_t ranks);

/// Clusters with published constants. docs/planner.md lists the sources, `source` a short form.
const std::vector<Cluster>& cluster_presets();
/// The preset of that name. Throws Error that lists the presets if there is none.
const Cluster& cluster_preset(const std::string& name);

}  // namespace ringtape::planner
