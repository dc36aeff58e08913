#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/machine_limits.h"

/// What a device can do at most, measured on it: the limits that the ladders, the roofline and the profiler
/// compare with.
namespace ringtape {

/// Most f32 operations a second that the device makes, measured by a kernel that works in registers alone.
double peak_flops(Device device);

/// Bytes a second, read and written, of a copy that moves `bytes` in all.
double copy_rate(Device device, double bytes);

/// Operations a second of gemm() on square matrices of `size` in f32, bf16 or f16.
double product_rate(Device device, DType dtype, int size);

/// Bytes a second: those of a copy larger than the caches. FLOPs a second: those of peak_flops() or of a
/// large product in `dtype`, whichever are more, as 16-bit products have units of their own. Memory: what is
/// allowed. Takes about a second, and memory for the copy and the product, less where little is free.
MachineLimits measure_limits(Device device, DType dtype);

}  // namespace ringtape
