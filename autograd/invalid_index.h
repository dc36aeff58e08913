#pragma once

#include <cstdint>

#include "core/device.h"

namespace ringtape {

/// A flag by which kernels report an index outside its range: one i32 on the device for each message and host
/// thread. It is 0 until a kernel writes 1 + the position of such an index. check_indices() reads and resets
/// it, and throws Error with `message`, a literal in which {} stands for the position.
std::int32_t* invalid_index_flag(const char* message, Device device);

/// The flag for cross-entropy's targets.
std::int32_t* invalid_target_flag(Device device);

}  // namespace ringtape
