#pragma once

#include <optional>
#include <string>

#include "io/json.h"
#include "planner/batch.h"
#include "planner/run_cost.h"

/// The output of `plan batch`.
namespace ringtape::planner {

/// As text: the arithmetic, the result, notes on rounding, exact alternatives, the run's time and cost.
std::string batch_text(const BatchPlan& plan, const std::optional<RunCost>& cost);

/// The same as a JSON object for scripts.
Json batch_json(const BatchPlan& plan, const std::optional<RunCost>& cost);

}  // namespace ringtape::planner
