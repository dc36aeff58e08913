#pragma once

#include <cstdint>
#include <optional>

#include "planner/batch.h"

namespace ringtape::planner {

/// The inputs of a run's time and cost. Exactly one of the three lengths must be given.
struct RunRequest {
  std::optional<std::int64_t> updates = {};
  std::optional<double> epochs = {};              ///< of BatchRequest::dataset
  std::optional<std::int64_t> total_tokens = {};  ///< for a known sequence length
  double samples_per_second = 0;                  ///< of a single rank; above 0
  double efficiency = 1;  ///< throughput of all ranks over ranks x throughput of one: (0, 1]
  double price = 0;       ///< of one GPU for an hour, at least 0
};

/// The time and the cost of a run.
struct RunCost {
  std::int64_t updates = 0;
  std::int64_t samples = 0;  ///< samples that the model processes
  double hours = 0;
  double gpu_hours = 0;  ///< hours x ranks with work
  double cost = 0;       ///< gpu_hours x price
};

/// hours = samples / (samples per second of a rank x ranks x efficiency) / 3600. Throws Error for numbers
/// that are not finite or out of range, for no length or more than one, and for epochs without `dataset` or
/// tokens without a sequence length.
RunCost cost_of_run(const RunRequest& run, const BatchPlan& plan, std::optional<std::int64_t> dataset);

}  // namespace ringtape::planner
