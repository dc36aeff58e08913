#include "apps/plan/cluster_flags.h"

#include "planner/numbers.h"

namespace ringtape::planner {

OptionValue algorithm_value(Algorithm& algorithm) {
  using enum Algorithm;
  return named_option_value<Algorithm>(
      algorithm, {{name_of(ring), ring}, {name_of(tree), tree}, {name_of(hierarchical), hierarchical}});
}

void ClusterFlags::add(CommandLine& app) {
  app.group("Cluster: a preset, and changes to it");
  std::vector<std::pair<std::string, const Cluster*>> presets;
  std::string names;
  for (const Cluster& cluster : cluster_presets()) {
    presets.emplace_back(cluster.name, &cluster);
    names += (names.empty() ? "" : ", ") + cluster.name;
  }
  app.option("--cluster", named_option_value(preset_, presets), "preset: " + names);

  app.option("--ranks-per-node", between(ranks_per_node_, 1, kMaxSize), "ranks in a node");
  app.option("--intra-node-latency", between(intra_node_us_, 0, 1e7),
             "latency of a message inside a node in us");
  app.option("--intra-node-bandwidth", between(intra_node_gb_, 1e-6, 1e6),
             "GB/s out of a rank inside its node");
  app.option("--inter-node-latency", between(inter_node_us_, 0, 1e7),
             "latency of a message between nodes in us");
  app.option("--inter-node-bandwidth", between(inter_node_gb_, 1e-6, 1e6),
             "GB/s out of a node, all adapters together");
  app.option("--call-latency", between(call_us_, 0, 1e7), "startup time of each collective in us");
}

Cluster ClusterFlags::cluster() const {
  Cluster cluster = *preset_;
  cluster.ranks_per_node = ranks_per_node_.value_or(cluster.ranks_per_node);
  const auto set = [](double& constant, const std::optional<double>& given, double unit) {
    if (given) constant = *given * unit;
  };
  set(cluster.intra_node.latency, intra_node_us_, 1e-6);
  set(cluster.intra_node.bandwidth, intra_node_gb_, 1e9);
  set(cluster.inter_node.latency, inter_node_us_, 1e-6);
  set(cluster.inter_node.bandwidth, inter_node_gb_, 1e9);
  set(cluster.call, call_us_, 1e-6);
  return cluster;
}

}  // namespace ringtape::planner
