#pragma once

#include <optional>
#include <string>

#include "io/json.h"
#include "planner/batch.h"
#include "planner/run_cost.h"

/// The output of `plan batch`.
namespace ringtape::planner {

/// As text: the arithmetic, the result, notes on rounding, exact alternatives, the run's cost.
std::string batch_text(const BatchPlan& plan, const std::optional<RunCost>& cost);

/// As one JSON object for scripts: the same.
Json batch_json(const BatchPlan& plan, const std::optional<RunCost>& cost);

}  // namespace ringtape::planner
