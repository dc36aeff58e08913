#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "kernels/machine_limits.h"
#include "trace/timing.h"

/// What a device can do at most, measured on it: the limits that the ladders, the roofline and the profiler
/// compare with. Rates are the best of some rounds.
namespace ringtape {

/// Work that shows a limit: the rate is `amount` over the seconds of a run.
struct LimitWork {
  TimedWork run;
  double amount = 0;  ///< operations or bytes of a run
};

/// f32 multiply-adds in registers alone; the amount is that of operations, two for each.
LimitWork multiply_add_work(Device device);

/// A copy that moves `bytes` in all: it reads an array of half as many and writes another. Keeps both.
LimitWork copy_work(Device device, double bytes);

/// Bytes that a copy moves whose arrays are far larger than the caches.
double large_copy_bytes(Device device);

/// Most f32 operations a second that the device makes, measured by a kernel that works in registers alone.
double peak_flops(Device device);

/// Bytes a second, read and written, of copy_work(). Arrays that fit in a cache show the cache's rate.
double copy_rate(Device device, double bytes);

/// Operations a second of gemm() on square matrices of `size` in f32, bf16 or f16.
double product_rate(Device device, DType dtype, int size);

/// Bytes a second: those of a copy of large_copy_bytes(). FLOPs a second: those of peak_flops() or of a
/// large product in `dtype`, whichever are more, as 16-bit products have units of their own. Memory: what is
/// allowed. Takes about a second, and memory for the copy and the product, less where little is free.
MachineLimits measure_limits(Device device, DType dtype);

}  // namespace ringtape
