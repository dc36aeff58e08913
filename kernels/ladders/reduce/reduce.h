#pragma once

#include <cstdint>

#include "kernels/common/launcher.h"

namespace ringtape {

/// *result = the sum of x[0] to x[n - 1], or of their squares; n is a multiple of 1024, up to 2^30. `scratch`
/// has room for n / 128 floats: the partial sums of the blocks, and of the next pass over these. No rung adds
/// floats by atomics, so two runs give the same bits. The last rung counts blocks in *counter, which is 0
/// before and after.
struct ReduceProblem {
  const float* x;
  std::int64_t n;
  bool squares;
  float* scratch;
  unsigned* counter;
  float* result;
};

}  // namespace ringtape

RINGTAPE_LAUNCHER(reduce_interleaved, const ReduceProblem& problem);
RINGTAPE_LAUNCHER(reduce_packed, const ReduceProblem& problem);
RINGTAPE_LAUNCHER(reduce_sequential, const ReduceProblem& problem);
RINGTAPE_LAUNCHER(reduce_first_add, const ReduceProblem& problem);
RINGTAPE_LAUNCHER(reduce_shuffle, const ReduceProblem& problem);
RINGTAPE_LAUNCHER(reduce_single_pass, const ReduceProblem& problem);
