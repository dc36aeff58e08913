#pragma once

#include <cstdint>
#include <string>

#include "planner/cluster.h"

/// The time of collectives in closed form. simulate_collective() (collective_messages.h) sends the same
/// messages one by one.
namespace ringtape::planner {

enum class Algorithm {
  /// n - 1 steps that reduce and n - 1 that gather, in each of which every rank sends S / n bytes to the next
  /// (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
  ring,
  /// Two binary trees of nodes, each with half of the data, in segments: up to the root, and down again
  /// (Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
  /// 2009). Inside a node the ranks are a chain, as in NCCL.
  tree,
  /// Reduce-scatter inside each node, a ring over the nodes for each rank's part, all-gather inside.
  hierarchical,
};
enum class Collective { all_reduce, reduce_scatter, all_gather };

/// "ring", "tree" or "hierarchical".
std::string name_of(Algorithm algorithm);

/// A collective over ranks 0 to ranks - 1 of a cluster. Reduce-scatter and all-gather have no tree: for them
/// `tree` means the ring, as in NCCL.
struct CollectiveProblem {
  Collective kind = Collective::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  std::int64_t ranks = 1;
  double bytes = 0;               ///< S: of the whole buffer
  double segment = 256.0 * 1024;  ///< largest number of bytes that a tree moves at a time
};

/// Seconds from the ranks' common call until the last rank is done; 0 for one rank. With n ranks in N nodes
/// of g, latency l and bandwidth B inside a node, L and C between nodes, and in addition the time of the
/// call:
///
/// ring over equal links: 2 (n - 1) (l + S / (n B)). With links of both kinds, all 2 (n - 1) steps wait for
/// the slowest path through them: see ring_time().
///
/// tree: 2 (g - 1) (l + 2 s / B) + 2 D (L + 2 s / C) + (m - 1) 2 s / min(B, C), with D = floor(log2 N), and m
/// segments of s bytes. A port has four streams, up and down in both trees, of S / 2 bytes each.
///
/// hierarchical: 2 (g - 1) (l + S / (g B)) + 2 (N - 1) (L + S / (N C)).
///
/// Reduce-scatter and all-gather are one half of a ring or hierarchical all-reduce. Throws Error as
/// check_ranks() does.
double collective_time(const Cluster& cluster, const CollectiveProblem& problem);

/// Seconds for `steps` steps of a ring over the ranks. In each step a rank sends `chunk` bytes to the next
/// rank, once the chunk of the previous step has arrived. The last chunk has waited for the slowest of all
/// paths that lead to it; each step of a path is either a message to the next rank, or waiting while a rank's
/// own link is still busy.
double ring_time(const Cluster& cluster, std::int64_t ranks, std::int64_t steps, double chunk);

/// collective_time() of 0 bytes.
double collective_latency(const Cluster& cluster, CollectiveProblem problem);

}  // namespace ringtape::planner
