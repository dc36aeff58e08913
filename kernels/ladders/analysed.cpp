#include "kernels/ladders/launchers.h"

namespace ringtape::ladders {

Trial make_analysed_trial(const std::string& name, int size) {
  return make_trial(name, size, Device{},
                    {in_analysis::transpose_rung, in_analysis::reduce_rung, in_analysis::softmax_rung,
                     in_analysis::gemm_rung});
}

}  // namespace ringtape::ladders
