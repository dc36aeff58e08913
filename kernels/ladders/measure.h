#pragma once

#include "core/device.h"

namespace ringtape::ladders {

/// Most f32 operations a second that the device makes, measured by a kernel that works in registers alone.
double peak_flops(Device device);

/// Bytes a second, read and written, of a copy that moves `bytes` in all.
double copy_rate(Device device, double bytes);

}  // namespace ringtape::ladders
