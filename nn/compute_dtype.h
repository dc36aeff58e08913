#pragma once

#include <string>

#include "core/device.h"
#include "core/dtype.h"

/// The dtype that a model computes in (ParameterArena's compute_dtype).
namespace ringtape {

/// The 16-bit dtype for this device: bf16 where it has instructions for it, else f16.
DType half_dtype(Device device);

/// As text: "bf16", "f16 (multiplied in f32 on a CPU)".
std::string describe_compute_dtype(DType dtype, Device device);

}  // namespace ringtape
