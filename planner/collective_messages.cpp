#include "planner/collective_messages.h"

#include <algorithm>

#include "core/error.h"
#include "core/numbers.h"
#include "planner/collective_phases.h"
#include "planner/event_queue.h"

namespace ringtape::planner {
namespace {

struct RingMember {
  Link link;              ///< to the next member
  double free = 0;        ///< when all messages queued on the link will have left
  std::int64_t sent = 0;  ///< number of chunks
  std::int64_t received = 0;
  bool has_called = false;
};

/// A member first sends its own chunk, and then the chunks that it has received.
void simulate_ring(const Cluster& cluster, const Circle& circle, std::int64_t steps, double chunk,
                   std::vector<double>& times) {
  struct Event {
    std::int32_t member;
    bool is_call;
  };
  EventQueue<Event> events;
  std::vector<RingMember> members(static_cast<std::size_t>(circle.size));
  for (std::int64_t i = 0; i < circle.size; ++i) {
    members[static_cast<std::size_t>(i)].link = circle.link(cluster, i);
    events.add(times[circle.rank(i)], {static_cast<std::int32_t>(i), true});
  }
  events.run([&](double now, Event event) {
    RingMember& member = members[static_cast<std::size_t>(event.member)];
    if (event.is_call) {
      member.has_called = true;
    } else {
      ++member.received;
    }
    while (member.has_called && member.sent < steps && member.sent <= member.received) {
      member.free = std::max(now, member.free) + member.link.busy(chunk);
      const bool is_last = event.member + 1 == circle.size;
      events.add(member.free + member.link.latency, {is_last ? 0 : event.member + 1, false});
      ++member.sent;
    }
    if (member.received == steps) times[circle.rank(event.member)] = std::max(now, member.free);
  });
}

class TreeSimulation {
 public:
  TreeSimulation(const Cluster& cluster, const CollectiveProblem& problem, std::vector<double>& times)
      : times_(times),
        segments_(TreeShape::segments(problem)),
        bytes_(problem.bytes / static_cast<double>(segments_)),
        ranks_(static_cast<std::size_t>(problem.ranks)) {
    for (std::int64_t r = 0; r < problem.ranks; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      const std::int64_t parent = TreeShape::parent(cluster, r);
      if (parent >= 0) {
        rank.parent = static_cast<std::int32_t>(parent);
        rank.edge = TreeShape::edge(parent / cluster.ranks_per_node == r / cluster.ranks_per_node
                                        ? cluster.intra_node
                                        : cluster.inter_node);
        ranks_[static_cast<std::size_t>(parent)].children.push_back(static_cast<std::int32_t>(r));
      }
      events_.add(times[static_cast<std::size_t>(r)], {static_cast<std::int32_t>(r), Kind::call});
    }
  }

  void run() {
    events_.run([this](double now, Event event) { handle(now, event); });
  }

 private:
  enum class Kind { call, up, down };
  /// up: a segment from `rank` reaches its parent; down: one from the parent reaches `rank`.
  struct Event {
    std::int32_t rank;
    Kind kind;
  };
  struct Rank {
    std::int32_t parent = -1;
    std::vector<std::int32_t> children;
    Link edge;                          ///< to and from the parent
    double up_free = 0, down_free = 0;  ///< when the edge will have carried all queued segments
    std::int64_t arrived_up = 0;        ///< segments of this rank that have reached the parent
    std::int64_t sent_up = 0,
                 sent_down = 0;  ///< sums passed on to the parent, results passed on to the children
    bool has_called = false;
  };

  Rank& rank(std::int32_t number) { return ranks_[static_cast<std::size_t>(number)]; }

  void handle(double now, Event event) {
    if (event.kind == Kind::down) {
      pass_down(now, event.rank);
      return;
    }
    if (event.kind == Kind::call) {
      rank(event.rank).has_called = true;
      pass_up(now, event.rank);
    } else {
      ++rank(event.rank).arrived_up;
      pass_up(now, rank(event.rank).parent);
    }
  }

  /// Sends up every segment that this rank and all its children have.
  void pass_up(double now, std::int32_t number) {
    Rank& self = rank(number);
    if (!self.has_called) return;
    std::int64_t complete = segments_;
    for (std::int32_t child : self.children) complete = std::min(complete, rank(child).arrived_up);
    for (; self.sent_up < complete; ++self.sent_up) {
      if (self.parent < 0) {
        pass_down(now, number);
      } else {
        self.up_free = std::max(now, self.up_free) + self.edge.busy(bytes_);
        events_.add(self.up_free + self.edge.latency, {number, Kind::up});
      }
    }
  }

  /// Called when this rank has the result of one more segment.
  void pass_down(double now, std::int32_t number) {
    double sent = now;
    for (std::int32_t child : rank(number).children) {
      Rank& to = rank(child);
      to.down_free = std::max(now, to.down_free) + to.edge.busy(bytes_);
      events_.add(to.down_free + to.edge.latency, {child, Kind::down});
      sent = std::max(sent, to.down_free);
    }
    if (++rank(number).sent_down == segments_) times_[static_cast<std::size_t>(number)] = sent;
  }

  std::vector<double>& times_;
  std::int64_t segments_;
  double bytes_;  // of a segment
  std::vector<Rank> ranks_;
  EventQueue<Event> events_;
};

}  // namespace

void simulate_collective(const Cluster& cluster, const CollectiveProblem& problem,
                         std::vector<double>& times) {
  check_ranks(cluster, problem.ranks);
  check(std::ssize(times) == problem.ranks, "simulate_collective: {} for {}",
        counted(std::ssize(times), "time"), counted(problem.ranks, "rank"));
  if (problem.ranks == 1) return;
  for (double& time : times) time += cluster.call;
  if (problem.algorithm == Algorithm::tree && problem.kind == Collective::all_reduce) {
    TreeSimulation(cluster, problem, times).run();
    return;
  }
  for_each_ring(cluster, problem, [&](const Circle& circle, std::int64_t steps, double chunk) {
    simulate_ring(cluster, circle, steps, chunk, times);
  });
}

double message_count(const Cluster& cluster, const CollectiveProblem& problem) {
  if (problem.algorithm == Algorithm::tree && problem.kind == Collective::all_reduce) {
    return 2 * static_cast<double>(problem.ranks - 1) * static_cast<double>(TreeShape::segments(problem));
  }
  double messages = 0;
  for_each_ring(cluster, problem, [&messages](const Circle& circle, std::int64_t steps, double) {
    messages += static_cast<double>(circle.size) * static_cast<double>(steps);
  });
  return messages;
}

}  // namespace ringtape::planner
