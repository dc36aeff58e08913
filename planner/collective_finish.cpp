#include "planner/collective_finish.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/numbers.h"
#include "planner/collective_phases.h"

namespace ringtape::planner {
namespace {

/// Places number the members over several rounds of the ring: place -1 is the last member, one round earlier.
class RingFinish {
 public:
  RingFinish(const Cluster& cluster, const Circle& circle, std::int64_t steps, double chunk)
      : circle_(circle), steps_(steps), chunk_(chunk) {
    std::vector<Link> links;
    for (std::int64_t i = 0; i < circle.size; ++i) {
      links.push_back(circle.link(cluster, i));
      wait_ = std::max(wait_, links.back().busy(chunk));
    }
    for (const Link& link : links) {
      hops_.push_back(around_);
      around_ += link.message(chunk) - wait_;
      is_slow_.push_back(link.busy(chunk) == wait_);
      if (!is_slow_.back()) quick_ = link;
    }
  }

  void run(std::vector<double>& times) const {
    const std::vector<double> begins = begins_of_places(times);
    std::vector<std::int64_t> window;  // places in descending order of time, from `front` on
    std::size_t front = 0;
    std::int64_t next = -steps_;  // the place that enters next
    const auto steps = static_cast<double>(steps_);
    double recent = -INFINITY;  // of the members after the last one with the slowest link
    std::int64_t last_slow = -1;
    while (!is_slow_[static_cast<std::size_t>(last_slow + circle_.size)]) --last_slow;
    for (std::int64_t place = last_slow + 1; place < 0; ++place) {
      recent = std::max(times[circle_.rank(place + circle_.size)], recent + quick_.latency);
    }
    for (std::int64_t r = 0; r < circle_.size; ++r) {
      double& time = times[circle_.rank(r)];
      if (is_slow_[static_cast<std::size_t>(r)]) {
        last_slow = r;
        recent = -INFINITY;
      } else {
        recent = std::max(time, recent + quick_.latency);
      }
      for (; next <= last_slow; ++next) {
        const auto begin = [&](std::int64_t place) {
          return begins[static_cast<std::size_t>(place + steps_)];
        };
        while (window.size() > front && begin(window.back()) <= begin(next)) window.pop_back();
        window.push_back(next);
      }
      while (window[front] < r - steps_) ++front;
      time = std::max(begins[static_cast<std::size_t>(window[front] + steps_)] +
                          hops_[static_cast<std::size_t>(r)] + steps * wait_,
                      recent + steps * quick_.busy(chunk_));
    }
  }

 private:
  /// For places -steps to the last member: when the member calls, less the time of the messages from place 0
  /// to it.
  std::vector<double> begins_of_places(const std::vector<double>& times) const {
    std::vector<double> begins(static_cast<std::size_t>(steps_ + circle_.size));
    double rounds = 0;
    std::int64_t member = circle_.size;
    for (std::size_t i = begins.size(); i-- > 0;) {
      if (--member < 0) {
        member += circle_.size;
        --rounds;
      }
      begins[i] = times[circle_.rank(member)] - hops_[static_cast<std::size_t>(member)] - rounds * around_;
    }
    return begins;
  }

  Circle circle_;
  std::int64_t steps_;
  double chunk_;
  double wait_ = 0;             // seconds that a chunk keeps the slowest link busy
  Link quick_ = {0, INFINITY};  // the others
  std::vector<double> hops_;    // time of h messages from member 0, less h `wait_`
  double around_ = 0;           // the same, for a whole round
  std::vector<bool> is_slow_;   // whether a member's link is the slowest
};

void finish_tree(const Cluster& cluster, const CollectiveProblem& problem, std::vector<double>& times) {
  const std::int64_t segments = TreeShape::segments(problem);
  const double bytes = problem.bytes / static_cast<double>(segments);
  double slowest = 0;
  // A rank's parent has a smaller number.
  for (std::int64_t r = problem.ranks - 1; r > 0; --r) {
    const Link edge = TreeShape::edge(cluster, r);
    slowest = std::max(slowest, edge.busy(bytes));
    double& parent = times[static_cast<std::size_t>(TreeShape::parent(cluster, r))];
    parent = std::max(parent, times[static_cast<std::size_t>(r)] + edge.message(bytes));
  }
  times[0] += static_cast<double>(segments - 1) * slowest;
  for (std::int64_t r = 1; r < problem.ranks; ++r) {
    times[static_cast<std::size_t>(r)] = times[static_cast<std::size_t>(TreeShape::parent(cluster, r))] +
                                         TreeShape::edge(cluster, r).message(bytes);
  }
}

}  // namespace

void finish_collective(const Cluster& cluster, const CollectiveProblem& problem, std::vector<double>& times) {
  check_ranks(cluster, problem.ranks);
  check(std::ssize(times) == problem.ranks, "finish_collective: {} for {}",
        counted(std::ssize(times), "time"), counted(problem.ranks, "rank"));
  if (problem.ranks == 1) return;
  for (double& time : times) time += cluster.call;
  if (problem.algorithm == Algorithm::tree && problem.kind == Collective::all_reduce) {
    finish_tree(cluster, problem, times);
    return;
  }
  for_each_ring(cluster, problem, [&](const Circle& circle, std::int64_t steps, double chunk) {
    if (steps > 0) RingFinish(cluster, circle, steps, chunk).run(times);
  });
}

}  // namespace ringtape::planner
