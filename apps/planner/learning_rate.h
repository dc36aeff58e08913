#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "apps/setup.h"

namespace ringtape::planner {

/// A learning rate that suits one batch, and the run that is to be made with another. How the rate is scaled,
/// warmed up and scheduled is said as the training programs are told it: by `options`, of which the batches,
/// --lr-scaling and the flags of the schedule are read.
struct RateRequest {
  double base_rate = 0;
  apps::TrainOptions options;
  std::int64_t dataset = 0;  ///< samples in an epoch
};

struct RatePlan {
  double linear = 0;       ///< base rate x batch / base batch (Goyal et al., 2017)
  double square_root = 0;  ///< base rate x sqrt(batch / base batch) (Krizhevsky, 2014; You et al., 2020)
  apps::TrainOptions options;
  apps::RunLength length;
  std::int64_t warmup = 0;  ///< updates
  Schedule schedule;
};

/// Throws Error for sizes and rates out of range, a batch larger than the data, a run of more than ten
/// million updates, and a warm-up that is longer than the run. A one-cycle schedule rises by itself, so for
/// it a warm-up of "auto" is none.
RatePlan plan_rate(const RateRequest& request);

/// The arithmetic, then the schedule as a table and drawn.
std::string rate_text(const RateRequest& request, const RatePlan& plan);

/// The numbers, and the rate at up to 101 updates, counted from 1.
nlohmann::ordered_json rate_json(const RatePlan& plan);

}  // namespace ringtape::planner
