#pragma once

#include <functional>

#include "core/stream.h"

namespace ringtape::ladders {

/// Median seconds of `work`, which queues kernels on the device's current stream, over `rounds` rounds of
/// about 5 ms or one run each, after one run to warm up.
double median_seconds(const std::function<void()>& work, Device device, int rounds = 7);

/// Most f32 operations a second that the device makes, measured by a kernel that works in registers alone.
double peak_flops(Device device);

/// Bytes a second, read and written, of a copy that moves `bytes` in all.
double copy_rate(Device device, double bytes);

}  // namespace ringtape::ladders
