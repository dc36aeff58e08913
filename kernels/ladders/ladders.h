#pragma once

#include <string>
#include <vector>

#include "core/device.h"
#include "kernels/ladders/common/trial.h"

namespace ringtape::ladders {

/// The names of the ladders.
const std::vector<std::string>& names();
/// The sizes of a ladder: multiples of a number, a default, and the largest. The number of elements must fit
/// in an int, a row of softmax in shared memory, one of layer_norm in a block's registers.
struct Sizes {
  int multiple;
  int usual;
  int most;
};
Sizes sizes_of(const std::string& ladder);

/// Throws Error for a size that the ladder does not support.
void check_size(const std::string& ladder, int size);

/// The ladder `name` for square matrices of `size`, size x size floats, or `size` tokens. Throws Error for an
/// unknown name or an unsupported size.
Trial make_trial(const std::string& name, int size, Device device);

/// Throws Error unless the ladder `name` has this rung, counted from 1, or `rung` is 0, for all rungs.
void check_rung(const std::string& name, const Trial& trial, int rung);

}  // namespace ringtape::ladders
