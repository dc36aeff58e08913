#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace ringtape {

/// The address of element `index` of a contiguous tensor.
inline void* element_address(const Tensor& tensor, std::int64_t index) {
  return static_cast<char*>(tensor.raw()) + index * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

}  // namespace ringtape
