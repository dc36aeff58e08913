#include "kernels/ladders/trial.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/ladders/gemm/trial.h"
#include "kernels/ladders/transpose/trial.h"

namespace ringtape::ladders {

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"transpose", "gemm"};
  return all;
}

Sizes sizes_of(const std::string& ladder) {
  check(std::find(names().begin(), names().end(), ladder) != names().end(),
        "no ladder is named '{}': expected transpose or gemm", ladder);
  return ladder == "gemm" ? Sizes{128, 1024} : Sizes{64, 4096};
}

void check_size(const std::string& ladder, int size) {
  const int multiple = sizes_of(ladder).multiple;
  constexpr int kMost = 32768;  // kernels index with int
  check(size > 0 && size <= kMost && size % multiple == 0,
        "ladder {}: a size of {}, expected a multiple of {} up to {}", ladder, size, multiple, kMost);
}

Trial make_trial(const std::string& name, int size, Device device) {
  check_size(name, size);
  if (name == "gemm") {
    return gemm_trial(size, device, [](const Stream& stream, int version, const GemmProblem& problem) {
      gemm_rung(stream, version, problem);
    });
  }
  return transpose_trial(size, device,
                         [](const Stream& stream, int version, const TransposeProblem& problem) {
                           transpose_rung(stream, version, problem);
                         });
}

}  // namespace ringtape::ladders
