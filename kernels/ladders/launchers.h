#pragma once

#include "kernels/ladders/gemm/trial.h"
#include "kernels/ladders/reduce/trial.h"
#include "kernels/ladders/softmax/trial.h"
#include "kernels/ladders/transpose/trial.h"

namespace ringtape::ladders {

/// The kernels of one target: for the device, or for the analysis.
struct Launchers {
  TransposeRung transpose;
  ReduceRung reduce;
  SoftmaxRung softmax;
  GemmRung gemm;
};

Trial make_trial(const std::string& name, int size, Device device, const Launchers& launchers);

}  // namespace ringtape::ladders
