#include "planner/cluster.h"

#include <cmath>

#include "core/ceil_div.h"
#include "core/error.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

// NCCL 2.28, src/graph/tuning.cc, ncclTunerConstantsDefaults: seconds of the ring algorithm with the Simple
// protocol, for a step over NVLink, for a step over the network, and for the call.
constexpr double kNvlinkStep = 3.4e-6, kNetworkStep = 14e-6, kCall = 8.4e-6;

void check_link(const char* name, const Link& link) {
  check(link.latency >= 0 && link.latency <= 10, "the latency {} nodes must be 0 to 10 seconds, found {}",
        name, link.latency);
  check(link.bandwidth > 0 && std::isfinite(link.bandwidth),
        "the bandwidth {} nodes must be above 0 bytes a second, found {}", name, link.bandwidth);
}

}  // namespace

std::int64_t Cluster::nodes(std::int64_t ranks) const {
  return ceil_div(ranks, ranks_per_node);
}

void check_cluster(const Cluster& cluster) {
  check_size("the ranks of a node", cluster.ranks_per_node);
  check_link("inside of", cluster.intra_node);
  check_link("between", cluster.inter_node);
  check(cluster.call >= 0 && cluster.call <= 10, "the time of a call must be 0 to 10 seconds, found {}",
        cluster.call);
}

void check_ranks(const Cluster& cluster, std::int64_t ranks) {
  check_size("the number of ranks", ranks);
  check(ranks <= cluster.ranks_per_node || ranks % cluster.ranks_per_node == 0,
        "{} do not fill nodes of {}: expected a multiple of {}, or fewer than a node has",
        grouped(ranks, "rank"), cluster.ranks_per_node, cluster.ranks_per_node);
}

const std::vector<Cluster>& cluster_presets() {
  static const std::vector<Cluster> presets = {
      {.name = "h100-ndr",
       .ranks_per_node = 8,
       .intra_node = {kNvlinkStep, 18 * 20.6e9},
       .inter_node = {kNetworkStep, 8 * 50e9},
       .call = kCall,
       .source = "8 H100, 18 NVLinks each at NCCL's 20.6 GB/s, and a 400 Gbit/s NDR adapter for each GPU "
                 "(NVIDIA DGX SuperPOD RA-11333); latencies of NCCL 2.28"},
      {.name = "v100-edr",
       .ranks_per_node = 16,
       .intra_node = {kNvlinkStep, 6 * 20e9},
       .inter_node = {kNetworkStep, 100e9},
       .call = kCall,
       .source =
           "DGX-2H: 16 V100, 6 NVLinks each at NCCL's 20 GB/s, 100 GB/s between servers (Shoeybi et al., "
           "2019, section 5); latencies of NCCL 2.28"},
      {.name = "p100-ethernet",
       .ranks_per_node = 8,
       .intra_node = {kNvlinkStep, 4 * 18e9},
       .inter_node = {kNetworkStep, 6.25e9},
       .call = kCall,
       .source =
           "Big Basin: 8 P100, 4 NVLinks each at NCCL's 18 GB/s, one 50 Gbit/s Ethernet adapter (Goyal et "
           "al., 2017, section 4.3); latencies of NCCL 2.28"},
  };
  return presets;
}

const Cluster& cluster_preset(const std::string& name) {
  std::string names;
  for (const Cluster& cluster : cluster_presets()) {
    if (cluster.name == name) return cluster;
    names += (names.empty() ? "" : ", ") + cluster.name;
  }
  fail("'{}' is not a known cluster: expected one of {}", name, names);
}

}  // namespace ringtape::planner
