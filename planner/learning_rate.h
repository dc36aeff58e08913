#pragma once

#include <string>

#include "io/json.h"
#include "train/learning_rate.h"

namespace ringtape::planner {

/// The learning rate for one batch size, and a run with another batch size.
struct RateRequest {
  double base_rate = 0;
  std::int64_t batch_size = 64;
  double epochs = 3;
  ScheduleOptions schedule;  ///< as for a Trainer, with the base batch and the scaling rule
  std::int64_t dataset = 0;  ///< samples in an epoch
};

/// The learning rate of the run, by both rules.
struct RatePlan {
  double linear = 0;       ///< base rate x batch / base batch (Goyal et al., 2017)
  double square_root = 0;  ///< base rate x sqrt(batch / base batch) (Krizhevsky, 2014; You et al., 2020)
  RateRequest request;
  RunLength length;
  std::int64_t warmup = 0;  ///< steps
  Schedule schedule;
};

/// Throws Error as check_options() does for the schedule and warmup_steps() for the warm-up, for sizes and
/// rates out of range, a batch larger than the data, and a run of more than ten million updates.
RatePlan plan_rate(const RateRequest& request);

/// The arithmetic, then the schedule as a table and as a chart.
std::string rate_text(const RatePlan& plan);

/// The numbers, and the rate at up to 101 updates, counted from 1.
Json rate_json(const RatePlan& plan);

}  // namespace ringtape::planner
