#pragma once

#include "kernels/ladders/common/trial.h"
#include "kernels/ladders/gemm/gemm.h"

namespace ringtape::ladders {

/// C = A B for square matrices.
Trial gemm_trial(int size, Device device);

}  // namespace ringtape::ladders
