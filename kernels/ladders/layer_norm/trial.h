#pragma once

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/layer_norm/layer_norm.h"

namespace ringtape::ladders {

/// Layer norm of `size` rows of `size` elements.
Trial layer_norm_trial(int size, Device device);

}  // namespace ringtape::ladders
