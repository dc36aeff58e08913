#pragma once

#include "kernels/ladders/attention/attention.h"
#include "kernels/ladders/common/trial.h"

namespace ringtape::ladders {

/// Causal attention of four heads of `size` tokens.
Trial attention_trial(int size, Device device);

}  // namespace ringtape::ladders
