#pragma once

#include "kernels/ladders/reduce/reduce.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

using ReduceRung = void (*)(const Stream& stream, int version, const ReduceProblem& problem);

/// The sum of size x size floats, or the sum of their squares (a norm before its root); `rung` is the
/// launcher to call.
Trial reduce_trial(int size, bool squares, Device device, ReduceRung rung);

}  // namespace ringtape::ladders
