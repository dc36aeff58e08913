#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/stream.h"
#include "kernels/limits.h"

/// A ladder's work with data to do it on: what the benchmark times, the analysis watches and the tests check.
namespace ringtape::ladders {

/// One version of a kernel.
struct Rung {
  const char* name;
  const char* adds;  ///< what it adds to the one before, in a few words
  DType inputs = DType::f32;
};

/// Memory that the kernels use.
struct Memory {
  std::string name;
  void* data;
  std::size_t bytes;
  bool written;  ///< before the kernel runs; what is not holds f32
};

/// Does the work of rung `version` (1 is the first) on the stream.
using Work = std::function<void(const Stream& stream, int version)>;

/// One ladder at one size on one device, with random inputs.
struct Trial {
  std::vector<Rung> rungs;
  double flops = 0;  ///< floating-point operations of the work; 0 where bytes are what counts
  double bytes = 0;  ///< that must be read and written at least, where they are what counts
  std::vector<Memory> memory;
  Work run;
  /// The largest error of what was computed last, as a multiple of what rounding allows: right up to 1.
  std::function<double()> error;
  /// The vendor's way to do the work of a version; empty where there is none.
  Work vendor;
  std::string vendor_name;
  /// Makes work that shows how much the machine does a second at most: operations where `flops` is above 0,
  /// else bytes.
  std::function<LimitWork()> limit;
  std::string limit_name;
};

/// Fills the outputs with NaN, lets `work` (the trial's `run` or `vendor`) compute them, and gives the error
/// of what is there now: infinite where an element was left out.
double error_of(const Trial& trial, const Work& work, const Stream& stream, int version);

/// The ladders there are.
const std::vector<std::string>& names();
/// What a size must be a multiple of, the size to take by default, and the largest: matrices have no more
/// elements than an int counts, and a row of softmax must fit into shared memory.
struct Sizes {
  int multiple;
  int usual;
  int most;
};
Sizes sizes_of(const std::string& ladder);

/// Throws Error where a ladder does not take a size.
void check_size(const std::string& ladder, int size);

/// The ladder `name` for square matrices of `size`, or size x size floats. Throws Error for a name or a size
/// that it does not have.
Trial make_trial(const std::string& name, int size, Device device);

}  // namespace ringtape::ladders
