#pragma once

#include <span>

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/reduce/reduce.h"

namespace ringtape::ladders {

/// The ladder's rungs, the first one first.
std::span<const RungOf<ReduceProblem>> reduce_rungs();

/// The sum of size x size floats, or the sum of their squares (a norm before its root).
Trial reduce_trial(int size, bool squares, Device device);

}  // namespace ringtape::ladders
