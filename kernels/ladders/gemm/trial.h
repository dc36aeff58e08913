#pragma once

#include <span>

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/gemm/gemm.h"

namespace ringtape::ladders {

/// The ladder's rungs, the first one first.
std::span<const RungOf<GemmProblem>> gemm_rungs();

/// C = A B for square matrices.
Trial gemm_trial(int size, Device device);

}  // namespace ringtape::ladders
