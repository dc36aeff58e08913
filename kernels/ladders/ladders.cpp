#include "kernels/ladders/ladders.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "kernels/ladders/attention/trial.h"
#include "kernels/ladders/gemm/trial.h"
#include "kernels/ladders/layer_norm/trial.h"
#include "kernels/ladders/reduce/trial.h"
#include "kernels/ladders/softmax/trial.h"
#include "kernels/ladders/transpose/trial.h"

namespace ringtape::ladders {
namespace {

Trial trial_of(const std::string& name, int size, Device device) {
  if (name == "transpose") return transpose_trial(size, device);
  if (name == "gemm") return gemm_trial(size, device);
  if (name == "softmax") return softmax_trial(size, device);
  if (name == "layer_norm") return layer_norm_trial(size, device);
  if (name == "attention") return attention_trial(size, device);
  return reduce_trial(size, name == "norm", device);
}

}  // namespace

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"transpose",  "reduce",    "norm", "softmax",
                                               "layer_norm", "attention", "gemm"};
  return all;
}

Sizes sizes_of(const std::string& ladder) {
  check(std::find(names().begin(), names().end(), ladder) != names().end(),
        "no ladder is named '{}': expected {}", ladder, fmt::join(names(), ", "));
  if (ladder == "gemm") return {128, 1024, 32768};
  if (ladder == "attention") return {64, 1024, 8192};
  return {64, 4096, ladder == "softmax" || ladder == "layer_norm" ? 8192 : 32768};
}

void check_size(const std::string& ladder, int size) {
  const auto [multiple, usual, most] = sizes_of(ladder);
  check(size > 0 && size <= most && size % multiple == 0,
        "ladder {}: a size of {}, expected a multiple of {} up to {}", ladder, size, multiple, most);
}

Trial make_trial(const std::string& name, int size, Device device) {
  check_size(name, size);
  Trial trial = trial_of(name, size, device);
  if (trial.flops > 0) {
    trial.limit_name = "f32 multiply-adds in registers";
    trial.limit = [device] { return multiply_add_work(device); };
  } else {
    trial.limit_name = "the bytes at the rate of a copy that no cache holds";
    trial.limit = [device] { return copy_work(device, large_copy_bytes(device)); };
  }
  return trial;
}

void check_rung(const std::string& name, const Trial& trial, int rung) {
  const int rungs = static_cast<int>(trial.rungs.size());
  check(rung >= 0 && rung <= rungs, "ladder {} has no rung {}: expected 1 to {}", name, rung, rungs);
}

}  // namespace ringtape::ladders
