#pragma once

#include <cstdint>
#include <optional>

#include "cli/command_line.h"
#include "planner/cluster.h"
#include "planner/collective_time.h"

namespace ringtape::planner {

/// The name of an algorithm of the collectives.
OptionValue algorithm_value(Algorithm& algorithm);

/// The flags of a cluster: a preset, and constants that replace those of the preset.
class ClusterFlags {
 public:
  void add(CommandLine& app);
  /// The preset, with the constants given on the command line.
  Cluster cluster() const;

 private:
  const Cluster* preset_ = &cluster_preset("h100-ndr");
  std::optional<std::int64_t> ranks_per_node_;
  std::optional<double> intra_node_us_, intra_node_gb_, inter_node_us_, inter_node_gb_, call_us_;
};

}  // namespace ringtape::planner
