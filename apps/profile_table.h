#pragma once

#include <string>

#include "apps/recorded_steps.h"
#include "core/profile.h"

namespace ringtape::apps {

/// The profile of the recorded steps of this rank. Measures the machine's limits for products in `dtype`.
Profile profile_of(const RecordedSteps& steps, DType dtype);

/// What --profile prints: a profile of these steps as tables, that of operations sorted by the column `sort`.
void print_profile(Profile profile, const RecordedSteps& steps, const std::string& sort);

}  // namespace ringtape::apps
