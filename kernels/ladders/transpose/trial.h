#pragma once

#include "kernels/ladders/transpose/transpose.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

/// The transpose of a square matrix.
Trial transpose_trial(int size, Device device);

}  // namespace ringtape::ladders
