#pragma once

#include <string>
#include <vector>

#include "core/device.h"

namespace ringtape {

/// One line about the hardware: model name, threads or multiprocessors, memory.
std::string describe(Device device);

/// A property of the machine or the build, such as {"cpu", "AMD EPYC"} or {"compiler", "g++ 12.2.0"}.
struct Fact {
  std::string name;
  std::string value;
};

/// The properties that a measurement on `device` depends on, in display order: the GPU and its driver if the
/// device is a GPU, the CPU with its cores, caches and vector instructions, the threads that kernels use,
/// memory, operating system, compiler and flags, and the libraries in use with their versions. Unknown
/// properties are left out; no value is empty.
std::vector<Fact> describe_machine(Device device);

}  // namespace ringtape
