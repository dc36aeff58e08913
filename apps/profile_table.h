#pragma once

#include <string>

#include "apps/recorded_steps.h"

namespace ringtape::apps {

/// What --profile prints: the recorded steps of this rank as a table, its rows sorted by the column `sort`.
void print_profile(const RecordedSteps& steps, const std::string& sort);

}  // namespace ringtape::apps
