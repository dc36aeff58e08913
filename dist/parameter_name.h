#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/safetensors.h"

namespace ringtape {

/// The tensor of this name. Throws Error if there is none.
inline const Tensor& tensor_named(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& each) { return each.name == name; });
  check(found != tensors.end(), "state: expected a tensor {}, found none", name);
  return found->tensor;
}

/// Where the parameter's name begins in a tensor's name such as "exp_avg.h.0.ln_1.weight": the longest suffix
/// of whole words for which `is_parameter` holds; npos if there is none.
template <class IsParameter>
std::size_t begin_of_parameter(const std::string& name, const IsParameter& is_parameter) {
  for (std::size_t first = 0;; ++first) {
    if (is_parameter(name.substr(first))) return first;
    first = name.find('.', first);
    if (first == std::string::npos) return first;
  }
}

}  // namespace ringtape
