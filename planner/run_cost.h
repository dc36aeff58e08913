#pragma once

#include <cstdint>
#include <optional>

#include "planner/batch.h"

namespace ringtape::planner {

/// The inputs of a run's time and price. Exactly one of the three lengths must be given.
struct RunRequest {
  std::optional<std::int64_t> updates = {};
  std::optional<double> epochs = {};              ///< of BatchRequest::dataset
  std::optional<std::int64_t> total_tokens = {};  ///< for a known sequence length
  double samples_per_second = 0;                  ///< of one rank on its own; above 0
  double efficiency = 1;  ///< throughput of all ranks over ranks x that of one: (0, 1]
  double price = 0;       ///< of one GPU for an hour, at least 0
};

struct RunCost {
  std::int64_t updates = 0;
  std::int64_t samples = 0;  ///< samples that go through the model
  double hours = 0;
  double gpu_hours = 0;  ///< hours x ranks that have work
  double cost = 0;       ///< gpu_hours x price
};

/// hours = samples / (samples per second of a rank x ranks x efficiency) / 3600. Throws Error for numbers
/// that are not finite or out of range, no length or more than one, and a length whose unit is not known.
RunCost cost_of_run(const RunRequest& run, const BatchPlan& plan, std::optional<std::int64_t> dataset);

}  // namespace ringtape::planner
