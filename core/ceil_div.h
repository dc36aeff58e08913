#pragma once

#include <type_traits>

#include "core/target.h"

/// Division of integers and multiples, rounded up, for n >= 0 and unit > 0. A signed n + unit - 1 must fit in
/// Int; where an unsigned one does not, round_up gives 0.
namespace ringtape::RINGTAPE_TARGET {

/// The number of pieces of `unit` that hold n: n / unit, rounded up.
template <class Int>
RINGTAPE_HOST_DEVICE constexpr Int ceil_div(Int n, std::type_identity_t<Int> unit) {
  return (n + unit - 1) / unit;
}

/// The smallest multiple of `unit` that is at least n.
template <class Int>
RINGTAPE_HOST_DEVICE constexpr Int round_up(Int n, std::type_identity_t<Int> unit) {
  return ceil_div(n, unit) * unit;
}

}  // namespace ringtape::RINGTAPE_TARGET

#if !defined(RINGTAPE_FOR_GPU)
namespace ringtape {
using on_cpu::ceil_div;
using on_cpu::round_up;
}  // namespace ringtape
#endif
