#pragma once

#include <string>
#include <string_view>

#include "core/device.h"
#include "core/dtype.h"

/// The dtype that a model computes in (ParameterArena's compute_dtype).
namespace ringtape {

/// "f32", "bf16", "f16", or "auto": bf16 where the device has instructions for it, else f16. Throws Error for
/// any other text.
DType parse_compute_dtype(std::string_view text, Device device);

/// As text: "bf16", "f16 (multiplied in f32 on a CPU)".
std::string describe_compute_dtype(DType dtype, Device device);

}  // namespace ringtape
