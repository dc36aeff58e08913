#pragma once

#include "kernels/ladders/gemm/gemm.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

/// C = A B for square matrices.
Trial gemm_trial(int size, Device device);

}  // namespace ringtape::ladders
