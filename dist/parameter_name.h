#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/safetensors.h"

namespace ringtape {

/// The tensor of this name. Throws Error where there is none.
inline const Tensor& tensor_named(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& each) { return each.name == name; });
  check(found != tensors.end(), "state: expected a tensor {}, found none", name);
  return found->tensor;
}

/// Where in a tensor's name, such as "adam.m.h.0.attn.weight", the parameter's name begins: the longest text
/// at its end, from a word on, for which `is_parameter` holds; npos where there is none.
template <class IsParameter>
std::size_t begin_of_parameter(const std::string& name, const IsParameter& is_parameter) {
  for (std::size_t first = 0;; ++first) {
    if (is_parameter(name.substr(first))) return first;
    first = name.find('.', first);
    if (first == std::string::npos) return first;
  }
}

}  // namespace ringtape
