#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/stream.h"
#include "kernels/limits.h"

/// A ladder's kernels with their data, for the benchmark, the analysis and the tests.
namespace ringtape::ladders {

/// One version of a kernel.
struct Rung {
  const char* name;
  const char* adds;  ///< its change from the rung before, in a few words
  DType inputs = DType::f32;
};

/// A row of a ladder's table: the rung and its launcher.
template <class Problem>
struct RungOf {
  Rung rung;
  void (*launch)(const Stream& stream, const Problem& problem);
};

/// Global memory that the kernels read or write.
struct TrialBuffer {
  std::string name;
  void* data;
  std::size_t bytes;
  bool written;  ///< before the kernel runs; unwritten memory holds f32
};

/// Does the work of rung `version` (1 is the first) on the stream.
using RungFunction = std::function<void(const Stream& stream, int version)>;

/// One ladder at one size on one device, with random inputs.
struct Trial {
  std::vector<Rung> rungs;
  double flops = 0;  ///< floating-point operations of the work; 0 if bytes are the limit
  double bytes = 0;  ///< least bytes to read and write, if they are the limit
  std::vector<TrialBuffer> memory;
  RungFunction run;
  /// The largest error of the last result, as a multiple of the rounding bound: correct up to 1.
  std::function<double()> error;
  /// The vendor library's version of the work; empty where there is none.
  RungFunction vendor;
  std::string vendor_name;
  /// Makes work that measures the machine's limit: operations a second if `flops` is above 0, else bytes a
  /// second.
  std::function<LimitWork()> limit;
  std::string limit_name;
};

/// Fills the outputs with NaN, lets `compute` (the trial's `run` or `vendor`) fill them, and returns their
/// error: infinite if an element was not written.
double error_of(const Trial& trial, const RungFunction& compute, const Stream& stream, int version);

}  // namespace ringtape::ladders
