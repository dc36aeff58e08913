#include "planner/training_step.h"

#include <algorithm>
#include <numeric>

namespace ringtape::planner {
namespace {

using Times = std::vector<double>;

double latest(const Times& times) {
  return *std::max_element(times.begin(), times.end());
}

/// to = max(to, from), rank by rank
void wait_for(Times& to, const Times& from) {
  for (std::size_t r = 0; r < to.size(); ++r) to[r] = std::max(to[r], from[r]);
}

class Steps {
 public:
  Steps(const StepModel& model, std::int64_t ranks, Jitter jitter, const Communicate& communicate)
      : model_(model),
        jitter_(jitter),
        communicate_(communicate),
        ranks_(static_cast<std::size_t>(ranks)),
        now_(ranks_, 0),
        wire_(ranks_, 0),
        busy_(ranks_, 0),
        factors_(ranks_, 1) {
    const double bytes = std::accumulate(model.buckets.begin(), model.buckets.end(), 0.0);
    for (double bucket : model.buckets) shares_.push_back(bucket / bytes);
  }

  StepTimes run(std::int64_t steps) {
    for (std::int64_t step = 0; step < steps; ++step) run_step();
    const auto count = static_cast<double>(steps);
    const double mean = std::accumulate(busy_.begin(), busy_.end(), 0.0) / static_cast<double>(ranks_);
    StepTimes times{.step = latest(now_) / count,
                    .computing = mean / count,
                    .waiting = (slowest_ - mean) / count,
                    .bubble = model_.bubble,
                    .exposed = 0,
                    .communicating = communicating_ / count};
    times.exposed = times.step - times.computing - times.waiting - times.bubble;
    return times;
  }

 private:
  void run_step() {
    const Times before = busy_;
    for (double& now : now_) now += model_.bubble;
    for (std::int64_t i = 0; i < model_.accumulation; ++i) {
      for (double& factor : factors_) factor = slowest_of_model();
      if (model_.zero == 3) {
        sharded_micro_batch();
      } else {
        const bool is_last = i + 1 == model_.accumulation;
        micro_batch(i == 0, is_last || model_.every_micro_batch || model_.zero == 2);
      }
    }
    for (double& now : now_) now += model_.sums;
    for (std::size_t r = 0; r < ranks_; ++r) compute(r, model_.optimizer);
    double longest = 0;
    for (std::size_t r = 0; r < ranks_; ++r) longest = std::max(longest, busy_[r] - before[r]);
    slowest_ += longest;
  }

  void micro_batch(bool is_first, bool reduces) {
    if (is_first && (model_.zero == 1 || model_.zero == 2)) {
      forward_with_gathers();
    } else {
      compute_all(model_.forward, 1);
    }
    if (!reduces) {
      compute_all(model_.backward, 1);
      return;
    }
    const Collective kind = reduction_of(model_.zero);
    wire_ = now_;
    const Times begin = now_;
    compute_all(model_.backward, 1);
    double share = 0;
    for (std::size_t b = 0; b < shares_.size(); ++b) {
      share += shares_[b];
      for (std::size_t r = 0; r < ranks_; ++r) {
        const double complete = begin[r] + share * (model_.backward * factors_[r] + model_.exposed);
        wire_[r] = std::max(wire_[r], model_.overlap ? complete : now_[r]);
      }
      communicate(kind, model_.buckets[b], wire_);
    }
    wait_for(now_, wire_);
  }

  /// After a step of stage 1 or 2 the values are gathered while the next forward computes with those that
  /// have arrived. Forward goes through the buckets in the opposite order of backward.
  void forward_with_gathers() {
    wire_ = now_;
    if (!model_.overlap) {
      for (const double bytes : model_.buckets) gather(bytes, wire_);
      wait_for(now_, wire_);
    }
    for (std::size_t b = shares_.size(); b-- > 0;) {
      if (model_.overlap) gather(model_.buckets[b], wire_);
      wait_for(now_, wire_);
      compute_all(model_.forward, shares_[b]);
    }
  }

  /// Stage 3. Forward goes through the buckets in the opposite order of backward.
  void sharded_micro_batch() {
    wire_ = now_;
    const std::vector<double> reversed(model_.buckets.rbegin(), model_.buckets.rend());
    pass(reversed, {shares_.rbegin(), shares_.rend()}, model_.forward, true, false);
    pass(model_.buckets, shares_, model_.backward, model_.reshard, true);
    wait_for(now_, wire_);
  }

  /// With `gathers`, gathers each bucket's parameters, the next bucket while one is computed; with `reduces`,
  /// reduces its gradients.
  void pass(const std::vector<double>& buckets, const std::vector<double>& shares, double seconds,
            bool gathers, bool reduces) {
    wait_for(wire_, now_);
    if (gathers) gather(buckets[0], wire_);
    Times gathered = wire_;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      wait_for(now_, gathered);
      const Times begin = now_;
      compute_all(seconds, shares[b]);
      if (gathers && b + 1 < buckets.size()) {
        wait_for(wire_, model_.overlap ? begin : now_);
        gather(buckets[b + 1], wire_);
        gathered = wire_;
      }
      if (reduces) {
        wait_for(wire_, now_);
        communicate(reduction_of(model_.zero), buckets[b], wire_);
      }
    }
  }

  /// Computes a share of a pass on all ranks, including the communication within the model.
  void compute_all(double seconds, double share) {
    for (std::size_t r = 0; r < ranks_; ++r) {
      compute(r, share * seconds * factors_[r]);
      now_[r] += share * model_.exposed;
    }
  }

  double slowest_of_model() {
    double slowest = jitter_.next();
    for (std::int64_t i = 1; i < model_.together; ++i) slowest = std::max(slowest, jitter_.next());
    return slowest;
  }

  void compute(std::size_t rank, double seconds) {
    now_[rank] += seconds;
    busy_[rank] += seconds;
  }

  void gather(double gradient_bytes, Times& times) {
    communicate(Collective::all_gather, gradient_bytes * model_.gathered_per_gradient, times);
  }

  void communicate(Collective kind, double bytes, Times& times) {
    const double called = latest(times);
    communicate_(kind, bytes, times);
    communicating_ += latest(times) - called;
  }

  const StepModel& model_;
  Jitter jitter_;
  const Communicate& communicate_;
  std::size_t ranks_;
  std::vector<double> shares_;  // of the buckets
  Times now_;                   // when each rank has finished computing
  Times wire_;                  // when its collectives end
  Times busy_;                  // seconds that each rank has computed
  Times factors_;
  double slowest_ = 0;  // seconds computed by the slowest rank of each step
  double communicating_ = 0;
};

}  // namespace

Collective reduction_of(int zero) {
  return zero == 0 ? Collective::all_reduce : Collective::reduce_scatter;
}

StepTimes simulate_steps(const StepModel& model, std::int64_t ranks, std::int64_t steps, Jitter jitter,
                         const Communicate& communicate) {
  return Steps(model, ranks, jitter, communicate).run(steps);
}

}  // namespace ringtape::planner
