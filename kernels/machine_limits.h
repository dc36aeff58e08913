#pragma once

#include <algorithm>
#include <cstddef>

#include "trace/spans.h"

namespace ringtape {

/// The limits of a machine, as measured by kernels/limits.h. 0: not known.
struct MachineLimits {
  double bytes_per_second = 0;  ///< read and written, by a large copy
  double flops_per_second = 0;  ///< additions and multiplications
  std::size_t memory = 0;       ///< total bytes allowed for tensors

  /// The roofline: the least time of the work for its bytes, and for its FLOPs.
  double seconds_for_bytes(const SpanWork& work) const {
    return bytes_per_second > 0 ? static_cast<double>(work.bytes) / bytes_per_second : 0;
  }
  double seconds_for_flops(const SpanWork& work) const {
    return flops_per_second > 0 ? static_cast<double>(work.flops) / flops_per_second : 0;
  }
  /// The longer of the two, as memory traffic and arithmetic overlap.
  double least_seconds(const SpanWork& work) const {
    return std::max(seconds_for_bytes(work), seconds_for_flops(work));
  }
  bool is_limited_by_flops(const SpanWork& work) const {
    return seconds_for_flops(work) >= seconds_for_bytes(work);
  }
};

}  // namespace ringtape
