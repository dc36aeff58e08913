#pragma once

#include <string>

#include "benchmarks/results_json.h"
#include "core/stream.h"
#include "core/timing.h"

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
  explicit Table(Device device);

  void measure(const KernelWork& work);

  Device device() const { return device_; }
  Stream stream() const { return Stream::current(device_); }
  const Results& results() const { return results_; }

 private:
  Device device_;
  double bytes_per_second_ = 0;
  Results results_;
};

}  // namespace ringtape::benchmarks
