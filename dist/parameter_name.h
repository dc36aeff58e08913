#pragma once

#include <string>

namespace ringtape {

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
