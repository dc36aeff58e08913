#pragma once

#include "kernels/ladders/softmax/softmax.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

/// Softmax cross-entropy, forward and gradient, of `size` rows of `size` classes.
Trial softmax_trial(int size, Device device);

}  // namespace ringtape::ladders
