#pragma once

#include <string>

#include "core/stream.h"
#include "core/tensor.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace ringtape::benchmarks {

/// A kernel's work and what it costs at least. FLOPs count each addition, multiplication, comparison,
/// conversion and elementary function as one.
struct KernelWork {
  const char* name;
  std::string size;
  double bytes;  ///< that must be read and written
  double flops;
  TimedWork run;
  TimedWork loop = {};  ///< the same as a plain loop, for the CPU; empty: there is none
};

/// Measures kernels, and prints a line for each beside the time that its bytes take at the device's copy
/// rate, which is measured first.
class Table {
 public:
  /// The rows go to the file `json` too; see Results.
  Table(Device device, const std::string& json);

  void measure(const KernelWork& work);

  Device device() const { return device_; }
  Stream stream() const { return Stream::current(device_); }
  const Results& results() const { return results_; }

 private:
  /// A copy that moves so many bytes in all, or 512 MiB where that is less.
  void copy(double bytes) const;

  Device device_;
  Results results_;
  Tensor from_, to_;  // of the copy
};

}  // namespace ringtape::benchmarks
