#include "kernels/ladders/gemm/trial.h"
#include "kernels/ladders/transpose/trial.h"
#include "kernels/ladders/trial.h"

namespace ringtape::ladders {

Trial make_analysed_trial(const std::string& name, int size) {
  check_size(name, size);
  if (name == "gemm") return gemm_trial(size, Device{}, in_analysis::gemm_rung);
  return transpose_trial(size, Device{}, in_analysis::transpose_rung);
}

}  // namespace ringtape::ladders
