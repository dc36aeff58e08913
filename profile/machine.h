#pragma once

#include <string>
#include <vector>

#include "core/device.h"

namespace ringtape {

/// One line about the hardware: model name, threads or multiprocessors, memory.
std::string describe(Device device);

/// Something about the machine or the build, such as {"cpu", "AMD EPYC"} or {"compiler", "g++ 12.2.0"}.
struct Fact {
  std::string name;
  std::string value;
};

/// What a measurement on `device` depends on, in the order to be shown: the GPU and its driver where the
/// device is one, the CPU with its cores, caches and vector instructions, the threads that kernels use,
/// memory, operating system, compiler and flags, and the libraries in use with their versions. What cannot be
/// found out is left out; no value is empty.
std::vector<Fact> describe_machine(Device device);

}  // namespace ringtape
