#pragma once

#include <memory>
#include <vector>

#include "optim/lamb.h"

namespace ringtape::test {

/// LAMB with an eps of 1e-3. With its usual eps the step of an element whose gradient is nearly 0 is all
/// rounding.
inline std::unique_ptr<Optimizer> lamb_with_large_eps(ParameterArena& arena, LambOptions options,
                                                      const std::vector<ParameterGroup>& groups = {}) {
  options.eps = 1e-3;
  return std::make_unique<Lamb>(arena, options, groups);
}

}  // namespace ringtape::test
