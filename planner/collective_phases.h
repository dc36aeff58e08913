#pragma once

#include <algorithm>
#include <cstdint>

#include "planner/collective_time.h"

/// Shared by the simulation of messages and the closed form: which rank sends which chunk to which rank.
namespace ringtape::planner {

/// A ring of ranks: first, first + stride, ..., each of which sends chunks to the next.
struct Circle {
  std::int64_t first, stride, size;
  double share;  ///< share of a node's link, if several rings use it

  std::size_t rank(std::int64_t member) const { return static_cast<std::size_t>(first + member * stride); }

  /// To the next member.
  Link link(const Cluster& cluster, std::int64_t member) const {
    const std::int64_t from = first + member * stride, to = first + (member + 1) % size * stride;
    if (from / cluster.ranks_per_node == to / cluster.ranks_per_node) return cluster.intra_node;
    return {cluster.inter_node.latency, cluster.inter_node.bandwidth * share};
  }
};

/// Calls ring(circle, steps, chunk) for each ring of a ring or hierarchical collective, in order: `steps`
/// steps that each send `chunk` bytes to the next member.
template <class Ring>
void for_each_ring(const Cluster& cluster, const CollectiveProblem& problem, Ring&& ring) {
  const bool all_reduces = problem.kind == Collective::all_reduce;
  if (problem.algorithm != Algorithm::hierarchical) {
    ring(Circle{0, 1, problem.ranks, 1}, (all_reduces ? 2 : 1) * (problem.ranks - 1),
         problem.bytes / static_cast<double>(problem.ranks));
    return;
  }
  const std::int64_t nodes = cluster.nodes(problem.ranks);
  const std::int64_t local = std::min(problem.ranks, cluster.ranks_per_node);
  const double part = problem.bytes / static_cast<double>(local);
  const auto inside = [&] {
    for (std::int64_t node = 0; node < nodes; ++node) {
      ring(Circle{node * local, 1, local, 1}, local - 1, part);
    }
  };
  if (problem.kind != Collective::all_gather) inside();
  for (std::int64_t i = 0; i < local; ++i) {
    ring(Circle{i, local, nodes, 1 / static_cast<double>(local)}, (all_reduces ? 2 : 1) * (nodes - 1),
         part / static_cast<double>(nodes));
  }
  if (problem.kind != Collective::reduce_scatter) inside();
}

/// The tree of Algorithm::tree. The first ranks of the nodes form a binary tree with node 0 as its root; in
/// each node the other ranks are a chain behind the first.
struct TreeShape {
  /// -1 for rank 0; less than the rank for others.
  static std::int64_t parent(const Cluster& cluster, std::int64_t rank) {
    if (rank % cluster.ranks_per_node != 0) return rank - 1;
    const std::int64_t node = rank / cluster.ranks_per_node;
    return node == 0 ? -1 : (node - 1) / 2 * cluster.ranks_per_node;
  }
  /// The link to and from the parent. A port carries four streams, up and down in two trees. A stream has
  /// half of the data and a quarter of the port, which takes as long as all of the data with half of the
  /// port.
  static Link edge(const Link& port) { return {port.latency, port.bandwidth / 2}; }
  static Link edge(const Cluster& cluster, std::int64_t rank) {
    return edge(rank % cluster.ranks_per_node != 0 ? cluster.intra_node : cluster.inter_node);
  }
  static std::int64_t segments(const CollectiveProblem& problem);
};

}  // namespace ringtape::planner
