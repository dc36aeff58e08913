#include "planner/collective_time.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/ceil_div.h"
#include "planner/collective_phases.h"
#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

double tree_time(const Cluster& cluster, const CollectiveProblem& problem) {
  const std::int64_t nodes = cluster.nodes(problem.ranks);
  const std::int64_t chain = std::min(problem.ranks, cluster.ranks_per_node) - 1;
  const auto depth = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(nodes)) - 1);
  const auto segments = static_cast<double>(TreeShape::segments(problem));
  const double bytes = problem.bytes / segments;
  const Link inside = TreeShape::edge(cluster.intra_node), between = TreeShape::edge(cluster.inter_node);
  const double slowest = std::max(chain > 0 ? inside.busy(bytes) : 0, depth > 0 ? between.busy(bytes) : 0);
  return 2 * static_cast<double>(chain) * inside.message(bytes) + 2 * depth * between.message(bytes) +
         (segments - 1) * slowest;
}

/// A ring inside each node and a ring over the nodes, once.
double hierarchical_half(const Cluster& cluster, const CollectiveProblem& problem) {
  const std::int64_t nodes = cluster.nodes(problem.ranks);
  const std::int64_t local = std::min(problem.ranks, cluster.ranks_per_node);
  const double part = problem.bytes / static_cast<double>(local);
  // The ranks of a node share its link, as each has its own ring over the nodes.
  const Link share = {cluster.inter_node.latency, cluster.inter_node.bandwidth / static_cast<double>(local)};
  return static_cast<double>(local - 1) * cluster.intra_node.message(part) +
         static_cast<double>(nodes - 1) * share.message(part / static_cast<double>(nodes));
}

}  // namespace

std::string name_of(Algorithm algorithm) {
  return algorithm == Algorithm::ring ? "ring" : algorithm == Algorithm::tree ? "tree" : "hierarchical";
}

double ring_time(const Cluster& cluster, std::int64_t ranks, std::int64_t steps, double chunk) {
  const std::int64_t local = cluster.ranks_per_node;
  const auto all = static_cast<double>(steps);
  if (ranks <= local) return all * cluster.intra_node.message(chunk);
  if (local == 1) return all * cluster.inter_node.message(chunk);

  const double inside = cluster.intra_node.message(chunk), between = cluster.inter_node.message(chunk);
  const double wait = std::max(cluster.intra_node.busy(chunk), cluster.inter_node.busy(chunk));
  // Of consecutive messages along the ring, every local-th leaves its node.
  const auto path = [&](std::int64_t messages) {
    const std::int64_t leave = between >= inside ? ceil_div(messages, local) : messages / local;
    return static_cast<double>(leave) * between + static_cast<double>(messages - leave) * inside +
           static_cast<double>(steps - messages) * wait;
  };
  // If the slowest link is inside a node, the slowest path either consists of messages only, or stays in its
  // node because leaving the node takes less time than waiting, at its beginning or before it leaves the last
  // node. If the slowest link is between nodes, the
  // slowest path crosses either as many of these links as possible, or only one, if the messages on the way
  // to the next such link take less time than waiting.
  const std::int64_t first = std::min(steps, local - 1), whole = (steps + 1) / local * local - 1;
  if (inside >= wait) return std::max({path(steps), path(first), path(std::max(first, whole))});
  return std::max(path(1), path(1 + (steps - 1) / local * local));
}

double collective_time(const Cluster& cluster, const CollectiveProblem& problem) {
  check_ranks(cluster, problem.ranks);
  if (problem.ranks == 1) return 0;
  const bool reduces_and_gathers = problem.kind == Collective::all_reduce;
  const int halves = reduces_and_gathers ? 2 : 1;
  if (problem.algorithm == Algorithm::hierarchical) {
    return cluster.call + halves * hierarchical_half(cluster, problem);
  }
  if (problem.algorithm == Algorithm::tree && reduces_and_gathers) {
    return cluster.call + tree_time(cluster, problem);
  }
  return cluster.call + ring_time(cluster, problem.ranks, halves * (problem.ranks - 1),
                                  problem.bytes / static_cast<double>(problem.ranks));
}

double collective_latency(const Cluster& cluster, CollectiveProblem problem) {
  problem.bytes = 0;
  return collective_time(cluster, problem);
}

std::int64_t TreeShape::segments(const CollectiveProblem& problem) {
  return std::max<std::int64_t>(1, std::llround(std::ceil(problem.bytes / problem.segment)));
}

}  // namespace ringtape::planner
