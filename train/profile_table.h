#pragma once

#include "profile/profile.h"
#include "train/console.h"
#include "train/recorded_steps.h"

namespace ringtape {

/// The profile of this rank's recorded steps. Measures the machine's limits, in which matrix products are in
/// `dtype`.
Profile profile_of_steps(const RecordedSteps& steps, DType dtype);

/// Prints a profile of these steps as tables; the table of operations is sorted by the column `sort`.
void print_profile(Profile profile, const RecordedSteps& steps, ProfileColumn sort, Console console);

}  // namespace ringtape
