#include "planner/collective_time.h"

#include <algorithm>
#include <cmath>

#include "planner/collective_finish.h"
#include "planner/collective_messages.h"
#include "planner/jitter.h"
#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

constexpr double kMiB = 1 << 20;

/// Inside a node 3 us and 100 GB/s, between nodes 20 us and 40 GB/s, no time for the call.
Cluster cluster_of(std::int64_t ranks_per_node) {
  return {.name = "",
          .ranks_per_node = ranks_per_node,
          .intra_node = {3e-6, 100e9},
          .inter_node = {20e-6, 40e9},
          .source = ""};
}

/// When the last rank is done, if all call at 0.
double by_messages(const Cluster& cluster, const CollectiveProblem& problem) {
  std::vector<double> times(static_cast<std::size_t>(problem.ranks), 0.0);
  simulate_collective(cluster, problem, times);
  return *std::max_element(times.begin(), times.end());
}

bool agree(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::abs(b);
}

}  // namespace

TEST_CASE("collectives over equal links take the time of the formulas", "[planner]") {
  const Cluster cluster = cluster_of(512);  // one node
  for (std::int64_t n : {2, 3, 8, 37, 512}) {
    for (double bytes : {0.0, 1.0, 1e6, 25 * kMiB}) {
      const auto ranks = static_cast<double>(n);
      const double half = (ranks - 1) * (3e-6 + bytes / ranks / 100e9);
      CHECK(agree(collective_time(cluster, {.ranks = n, .bytes = bytes}), 2 * half, 1e-12));
      CHECK(agree(by_messages(cluster, {.ranks = n, .bytes = bytes}), 2 * half, 1e-9));
      for (Collective kind : {Collective::reduce_scatter, Collective::all_gather}) {
        const CollectiveProblem problem{.kind = kind, .ranks = n, .bytes = bytes};
        CHECK(agree(collective_time(cluster, problem), half, 1e-12));
        CHECK(agree(by_messages(cluster, problem), half, 1e-9));
      }
    }
  }
  // 100 us and 2 x (n - 1) / n x bytes at 1 GB/s, for 4 ranks and 8 MB: 100 us + 12 ms
  const Cluster called{.name = "",
                       .ranks_per_node = 1,
                       .intra_node = {0, 1e9},
                       .inter_node = {0, 1e9},
                       .call = 1e-4,
                       .source = ""};
  CHECK(agree(collective_time(called, {.ranks = 4, .bytes = 8e6}), 12.1e-3, 1e-12));
  CHECK(agree(by_messages(called, {.ranks = 4, .bytes = 8e6}), 12.1e-3, 1e-12));
  CHECK(collective_time(called, {.ranks = 1, .bytes = 8e6}) == 0);
}

TEST_CASE("hierarchical and tree all-reduce take the time of the formulas", "[planner]") {
  const Cluster cluster = cluster_of(8);
  const double bytes = 16 * kMiB;
  // 4 nodes: 2 x 7 steps of an eighth inside, 2 x 3 of a 32nd between them at an eighth of the node's 40 GB/s
  const double hierarchical = 14 * (3e-6 + bytes / 8 / 100e9) + 6 * (20e-6 + bytes / 32 / 5e9);
  const CollectiveProblem levels{.algorithm = Algorithm::hierarchical, .ranks = 32, .bytes = bytes};
  CHECK(agree(collective_time(cluster, levels), hierarchical, 1e-12));
  CHECK(agree(by_messages(cluster, levels), hierarchical, 1e-9));

  // 64 segments of 256 KiB at half of the bandwidths: 7 hops in the node and 2 between nodes, up and down,
  // and 63 more segments through the slowest link
  const double segment = 256 * 1024.0;
  const double tree = 14 * (3e-6 + segment / 50e9) + 4 * (20e-6 + segment / 20e9) + 63 * segment / 20e9;
  const CollectiveProblem hops{.algorithm = Algorithm::tree, .ranks = 32, .bytes = bytes};
  CHECK(agree(collective_time(cluster, hops), tree, 1e-12));
  CHECK(agree(by_messages(cluster, hops), tree, 1e-9));
}

TEST_CASE("simulated messages and the closed form agree", "[planner]") {
  Cluster fast_network = cluster_of(8);
  fast_network.inter_node = {1e-6, 900e9};
  Cluster slow_nodes = cluster_of(4);
  slow_nodes.intra_node = {40e-6, 10e9};
  Cluster pairs = cluster_of(2);
  pairs.intra_node = {20e-6, 10e9};
  pairs.inter_node = {1e-6, 100e9};
  for (const Cluster& cluster : {cluster_of(1), cluster_of(2), cluster_of(8), fast_network, slow_nodes, pairs,
                                 cluster_preset("h100-ndr"), cluster_preset("p100-ethernet")}) {
    for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}) {
      for (Collective kind : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
        for (std::int64_t nodes : {1, 2, 3, 7, 16}) {
          for (double bytes : {0.0, 4e3, 1e6, 25 * kMiB}) {
            const CollectiveProblem problem{.kind = kind,
                                            .algorithm = algorithm,
                                            .ranks = nodes * cluster.ranks_per_node,
                                            .bytes = bytes};
            CAPTURE(cluster.ranks_per_node, name_of(algorithm), static_cast<int>(kind), nodes, bytes);
            CHECK(agree(by_messages(cluster, problem), collective_time(cluster, problem), 1e-9));
            std::vector<double> times(static_cast<std::size_t>(problem.ranks), 0.0);
            finish_collective(cluster, problem, times);
            CHECK(agree(*std::max_element(times.begin(), times.end()), collective_time(cluster, problem),
                        1e-9));
          }
        }
      }
    }
  }
}

TEST_CASE("ranks that call at different times end in closed form when the simulated messages do",
          "[planner]") {
  for (const char* name : {"h100-ndr", "p100-ethernet"}) {
    const Cluster& cluster = cluster_preset(name);
    for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}) {
      for (Collective kind : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
        for (double spread : {1e-5, 1e-3, 1e-1}) {
          const CollectiveProblem problem{
              .kind = kind, .algorithm = algorithm, .ranks = 128, .bytes = 25 * kMiB};
          Jitter jitter({.variation = 0.5, .seed = 3});
          std::vector<double> messages(128);
          for (double& time : messages) time = spread * jitter.next();
          std::vector<double> closed = messages;
          simulate_collective(cluster, problem, messages);
          finish_collective(cluster, problem, closed);
          double furthest = 0;
          for (std::size_t r = 0; r < 128; ++r) {
            const double distance = std::abs(closed[r] - messages[r]) / messages[r];
            furthest = std::isnan(distance) ? INFINITY : std::max(furthest, distance);
          }
          CAPTURE(name, name_of(algorithm), static_cast<int>(kind), spread);
          CHECK(furthest < 0.01);
        }
      }
    }
  }
}

TEST_CASE("latency and messages of a collective", "[planner]") {
  const Cluster cluster = cluster_of(8);
  CHECK(collective_latency(cluster, {.ranks = 8, .bytes = 1e9}) == Approx(14 * 3e-6));
  // A ring of 512 ranks: 2 x 511 steps, 128 of which are between nodes; a tree: 2 x (7 + 6) hops
  CHECK(collective_latency(cluster, {.ranks = 512, .bytes = 1e9}) == Approx(128 * 20e-6 + 894 * 3e-6));
  CHECK(collective_latency(cluster, {.algorithm = Algorithm::tree, .ranks = 512, .bytes = 1e9}) ==
        Approx(14 * 3e-6 + 12 * 20e-6));
  CHECK(message_count(cluster, {.ranks = 4}) == 2 * 4 * 3);
  CHECK(message_count(cluster, {.kind = Collective::all_gather, .ranks = 4}) == 4 * 3);
  CHECK(message_count(cluster, {.algorithm = Algorithm::hierarchical, .ranks = 16}) == 2 * 16 * (7 + 1));
  CHECK(message_count(cluster, {.algorithm = Algorithm::tree, .ranks = 16, .bytes = 600 * 1024.0}) ==
        2 * 15 * 3);
}

TEST_CASE("invalid clusters are refused", "[planner]") {
  CHECK_THROWS_WITH(cluster_preset("abacus"),
                    ContainsSubstring("'abacus' is not a known cluster: expected one of h100-ndr"));
  CHECK_THROWS_WITH(check_ranks(cluster_of(8), 12), ContainsSubstring("12 ranks do not fill nodes of 8"));
  CHECK_THROWS_WITH(check_ranks(cluster_of(8), 0), ContainsSubstring("found 0"));
  Cluster cluster = cluster_of(8);
  cluster.inter_node.bandwidth = 0;
  CHECK_THROWS_WITH(check_cluster(cluster), ContainsSubstring("bandwidth between nodes must be above 0"));
  cluster = cluster_of(8);
  cluster.intra_node.latency = -1;
  CHECK_THROWS_WITH(check_cluster(cluster), ContainsSubstring("found -1"));
  cluster = cluster_of(0);
  CHECK_THROWS_WITH(check_cluster(cluster), ContainsSubstring("found 0"));
  std::vector<double> times(3);
  CHECK_THROWS_WITH(simulate_collective(cluster_of(8), {.ranks = 4}, times),
                    ContainsSubstring("3 times for 4 ranks"));
  for (const Cluster& preset : cluster_presets()) CHECK_NOTHROW(check_cluster(preset));
}

}  // namespace ringtape::planner::test
