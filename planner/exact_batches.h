#pragma once

#include <vector>

#include "planner/batch.h"

namespace ringtape::planner {

/// One number of a BatchShape, with its name in texts.
struct BatchPart {
  const char* name;
  std::int64_t BatchShape::*value;
};

/// The plans nearest to `asked` that need no rounding. Plans with the same global batch change one of the
/// `given` numbers, to the nearest smaller and the nearest larger value that divides `target`, and compute
/// `missing` again; if there are none, they also reduce the other given numbers to divisors of the target.
/// Plans with another global batch keep all `given` numbers. Accumulation is at most `max_accumulation`
/// steps; numbers that are not given are 1.
std::vector<BatchShape> exact_batches(std::int64_t target, const BatchShape& asked,
                                      const std::vector<BatchPart>& given, const BatchPart& missing,
                                      std::int64_t max_accumulation);

}  // namespace ringtape::planner
