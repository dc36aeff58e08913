#pragma once

#include <span>

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/softmax/softmax.h"

namespace ringtape::ladders {

/// The ladder's rungs, the first one first.
std::span<const RungOf<SoftmaxProblem>> softmax_rungs();

/// Softmax cross-entropy, forward and gradient, of `size` rows of `size` classes.
Trial softmax_trial(int size, Device device);

}  // namespace ringtape::ladders
