#pragma once

#include "kernels/ladders/softmax/softmax.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

using SoftmaxRung = void (*)(const Stream& stream, int version, const SoftmaxProblem& problem);

/// Softmax cross-entropy, forward and gradient, of `size` rows of `size` classes; `rung` is the launcher to
/// call.
Trial softmax_trial(int size, Device device, SoftmaxRung rung);

}  // namespace ringtape::ladders
