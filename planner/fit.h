#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "planner/batch.h"

namespace ringtape::planner {

/// A micro-batch that was tried or computed.
struct FitTrial {
  std::int64_t micro_batch = 0;
  std::optional<std::int64_t> bytes = {};         ///< at an update's peak; empty if memory ran out
  std::optional<double> samples_per_second = {};  ///< empty if it was not measured
  bool fits = false;
};

/// Tries a micro-batch and tells whether it fits.
using TryMicroBatch = std::function<FitTrial(std::int64_t micro_batch)>;

/// The result of a search for the largest micro-batch.
struct FitResult {
  std::vector<FitTrial> trials;  ///< in the order of the search
  std::int64_t largest = 0;      ///< 0: not even 1 fits
  std::string arithmetic = {};   ///< the result by one division, as a line; may be empty
};

/// The largest micro-batch from 1 to `most` that fits: sizes are doubled until one does not fit, then found
/// by bisection; about 2 log2(most) trials. If a size fits, every smaller size must fit too.
FitResult largest_that_fits(std::int64_t most, const TryMicroBatch& attempt);

/// Throws Error that lists the options if not even a micro-batch of 1 fits into `memory` bytes.
void check_fits(const FitResult& result, std::int64_t memory);

/// The trials, then the plan of the batch (batch_text(), batch_json()).
std::string fit_text(const FitResult& result, const BatchPlan& plan);
Json fit_json(const FitResult& result, const BatchPlan& plan);

}  // namespace ringtape::planner
