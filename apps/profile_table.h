#pragma once

#include <string>

#include "apps/recorded_steps.h"

namespace ringtape::apps {

/// What --profile prints: the recorded steps of this rank as tables, that of operations sorted by the column
/// `sort`. Measures the machine's limits for products in `dtype`.
void print_profile(const RecordedSteps& steps, const std::string& sort, DType dtype);

}  // namespace ringtape::apps
