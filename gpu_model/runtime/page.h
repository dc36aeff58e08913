#pragma once

#include <cstddef>

namespace gpu_model {

/// Of the host's memory, in bytes.
inline constexpr std::size_t kPage = 4096;

/// The smallest multiple of `unit` that is at least `bytes`, a size or an address.
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace gpu_model
