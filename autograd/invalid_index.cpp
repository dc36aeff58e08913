#include "autograd/invalid_index.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "core/error.h"
#include "core/stream.h"
#include "kernels/elementwise.h"

namespace ringtape {
namespace {

/// By device and message.
std::map<std::pair<std::string, std::string>, Tensor>& invalid_index_flags() {
  thread_local std::map<std::pair<std::string, std::string>, Tensor> flags;
  return flags;
}

}  // namespace

std::int32_t* invalid_index_flag(const char* message, Device device) {
  Tensor& flag = invalid_index_flags()[{to_string(device), message}];
  if (!flag.defined()) flag = zeros({1}, DType::i32, device);
  return flag.data<std::int32_t>();
}

std::int32_t* invalid_target_flag(Device device) {
  return invalid_index_flag(
      "cross_entropy: the target of row {} is outside of [0, classes) and is not the ignored index", device);
}

void check_indices(Device device) {
  std::string first;
  for (auto& [key, flag] : invalid_index_flags()) {
    if (flag.device() != device) continue;
    const auto position = static_cast<std::int64_t>(flag.item());
    if (position == 0) continue;
    fill(Stream::current(device), DType::i32, flag.raw(), std::int64_t{1}, 0.0);
    if (first.empty()) first = fmt::format(fmt::runtime(key.second), position - 1);
  }
  check(first.empty(), "{}", first);
}

}  // namespace ringtape
