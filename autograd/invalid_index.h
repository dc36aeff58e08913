#pragma once

#include <cstdint>

#include "core/device.h"

namespace ringtape {

/// Where a kernel reports an index outside its range: one i32 on the device for each message and thread of
/// the host, 0 until a kernel writes 1 + the position of such an index. check_indices() reads and resets it,
/// and throws Error with `message`, in which {} stands for the position. `message` must be a literal.
std::int32_t* invalid_index_flag(const char* message, Device device);

}  // namespace ringtape
