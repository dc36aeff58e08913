#pragma once

#include "kernels/ladders/gemm/gemm.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

using GemmRung = void (*)(const Stream& stream, int version, const GemmProblem& problem);

/// C = A B for square matrices; `rung` is the launcher to call.
Trial gemm_trial(int size, Device device, GemmRung rung);

}  // namespace ringtape::ladders
