#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "kernels/machine_limits.h"
#include "trace/timing.h"

/// The measured limits of a device, for the ladders, the roofline and the profiler. Rates are the best of
/// several rounds. Functions that choose the size of the work take a large one, or on a slow machine the
/// first size that takes 20 ms (a product on a CPU: 1 ms).
namespace ringtape {

/// Work that measures a limit: the rate is `amount` over the seconds of a run.
struct LimitWork {
  TimedWork run;
  double amount = 0;  ///< operations or bytes of a run
};

/// f32 multiply-adds in registers only; the amount is the number of operations, two for each.
LimitWork multiply_add_work(Device device);

/// A copy that moves `bytes` in total: it reads an array of bytes / 2 and writes another. It keeps both
/// arrays.
LimitWork copy_work(Device device, double bytes);

/// Bytes moved by a copy whose arrays are far larger than the caches.
double large_copy_bytes(Device device);

/// Bytes a second, read and written, of copy_work(). Arrays that fit in a cache show the cache's rate.
double copy_rate(Device device, double bytes);

/// FLOPs a second: the larger of the rates of multiply_add_work() and of a large product in `dtype`, as
/// 16-bit products have their own units. Takes a few tenths of a second, and memory for the product: less
/// where little is free.
double peak_flops(Device device, DType dtype);

/// Bytes a second: of a copy of large_copy_bytes(). FLOPs a second: peak_flops(). Memory: the allowed
/// bytes. Takes about a second, and memory for the copy and the product, less where little is free.
MachineLimits measure_limits(Device device, DType dtype);

}  // namespace ringtape
