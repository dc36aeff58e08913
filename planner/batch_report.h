#pragma once

#include <optional>
#include <string>

#include "io/json.h"
#include "planner/batch.h"
#include "planner/run_cost.h"

/// What `plan batch` prints.
namespace ringtape::planner {

/// For a person: the arithmetic, the result, what was rounded, near exact alternatives, the run's cost.
std::string batch_text(const BatchPlan& plan, const std::optional<RunCost>& cost);

/// For a script: the same, in one object.
Json batch_json(const BatchPlan& plan, const std::optional<RunCost>& cost);

}  // namespace ringtape::planner
