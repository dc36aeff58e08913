#pragma once

#include "kernels/ladders/transpose/transpose.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

using TransposeRung = void (*)(const Stream& stream, int version, const TransposeProblem& problem);

/// The transpose of a square matrix; `rung` is the launcher to call.
Trial transpose_trial(int size, Device device, TransposeRung rung);

}  // namespace ringtape::ladders
