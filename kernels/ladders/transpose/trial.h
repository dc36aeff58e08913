#pragma once

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/transpose/transpose.h"

namespace ringtape::ladders {

/// The transpose of a square matrix.
Trial transpose_trial(int size, Device device);

}  // namespace ringtape::ladders
