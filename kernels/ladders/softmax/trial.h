#pragma once

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/softmax/softmax.h"

namespace ringtape::ladders {

/// Softmax cross-entropy, forward and gradient, of `size` rows of `size` classes.
Trial softmax_trial(int size, Device device);

}  // namespace ringtape::ladders
