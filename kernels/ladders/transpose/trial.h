#pragma once

#include <span>

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/transpose/transpose.h"

namespace ringtape::ladders {

/// The ladder's rungs, the first one first.
std::span<const RungOf<TransposeProblem>> transpose_rungs();

/// The transpose of a square matrix.
Trial transpose_trial(int size, Device device);

}  // namespace ringtape::ladders
