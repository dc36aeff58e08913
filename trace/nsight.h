#pragma once

#include <string>

#include "core/device.h"

/// Support for NVIDIA's profilers, Nsight Systems and Nsight Compute: named ranges (NVTX), and starting and
/// stopping a profiler. Without CUDA these functions do nothing.
namespace ringtape {

/// True if a profiler is attached to this process and records NVTX ranges.
bool nvtx_is_attached();

/// nvtx_push() opens a named range of this thread inside of the open ones; nvtx_pop() closes the innermost
/// one.
void nvtx_push(const std::string& name);
void nvtx_pop();

/// cudaProfilerStart() and cudaProfilerStop() on a GPU, each after the device's current stream has finished
/// all queued work. A profiler that was told to wait for them (`nsys profile
/// --capture-range=cudaProfilerApi`, `ncu --profile-from-start off`) records the part in between.
void start_profiler(Device device);
void stop_profiler(Device device);

}  // namespace ringtape
