#include "apps/planner/collective_finish.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "apps/planner/collective_phases.h"
#include "core/error.h"

namespace ringtape::planner {
namespace {

class RingFinish {
 public:
  RingFinish(const Cluster& cluster, const Circle& circle, std::int64_t steps, double chunk)
      : circle_(circle), steps_(steps), chunk_(chunk), around_(1, 0.0) {
    for (std::int64_t i = 0; i < circle.size; ++i) {
      wait_ = std::max(wait_, circle.link(cluster, i).busy(chunk));
    }
    for (std::int64_t i = 0; i < circle.size; ++i) {
      const Link link = circle.link(cluster, i);
      around_.push_back(around_.back() + link.message(chunk) - wait_);
      is_slow_.push_back(link.busy(chunk) == wait_);
      if (!is_slow_.back()) quick_ = link;
    }
  }

  void run(std::vector<double>& times) const {
    std::vector<double> done;
    std::deque<std::pair<std::int64_t, double>>
        window;                   // places up to r and their times, the latest in front
    std::int64_t next = -steps_;  // place that enters next; a negative one: a round before
    double recent = -INFINITY;    // of the members since the last whose link is the slowest
    for (std::int64_t r = std::min<std::int64_t>(last_slow(0) + 1, 0); r < circle_.size; ++r) {
      const bool is_slow = last_slow(r) == r;
      recent = is_slow ? -INFINITY : std::max(times[circle_.rank(member(r))], recent + quick_.latency);
      if (r < 0) continue;
      for (const std::int64_t end = last_slow(r); next <= end; ++next) {
        const double value = times[circle_.rank(member(next))] - hops(next);
        while (!window.empty() && window.back().second <= value) window.pop_back();
        window.emplace_back(next, value);
      }
      while (window.front().first < r - steps_) window.pop_front();
      const auto steps = static_cast<double>(steps_);
      done.push_back(
          std::max(window.front().second + hops(r) + steps * wait_, recent + steps * quick_.busy(chunk_)));
    }
    for (std::int64_t r = 0; r < circle_.size; ++r)
      times[circle_.rank(r)] = done[static_cast<std::size_t>(r)];
  }

 private:
  std::int64_t member(std::int64_t place) const {
    return (place % circle_.size + circle_.size) % circle_.size;
  }

  /// What the messages from member 0 to this place take, beyond as many times `wait_`.
  double hops(std::int64_t place) const {
    const std::int64_t rounds = (place - member(place)) / circle_.size;
    return static_cast<double>(rounds) * around_.back() + around_[static_cast<std::size_t>(member(place))];
  }

  /// The last place up to this one whose link is the slowest.
  std::int64_t last_slow(std::int64_t place) const {
    while (!is_slow_[static_cast<std::size_t>(member(place))]) --place;
    return place;
  }

  Circle circle_;
  std::int64_t steps_;
  double chunk_;
  double wait_ = 0;             // how long a chunk keeps the slowest link busy
  Link quick_ = {0, INFINITY};  // the others
  std::vector<double> around_;  // sums from member 0 on
  std::vector<bool> is_slow_;
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
  check(std::ssize(times) == problem.ranks, "finish_collective: {} times for {} ranks", times.size(),
        problem.ranks);
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
