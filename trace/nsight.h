#pragma once

#include <string>

#include "core/device.h"

/// What a CUDA build tells NVIDIA's profilers, Nsight Systems and Nsight Compute: named ranges (NVTX), and
/// which part of a program to look at. In a build without CUDA all of it does nothing.
namespace ringtape {

/// True where a profiler has attached itself to this process and listens to NVTX ranges.
bool nvtx_is_attached();

/// Opens a named range of this thread, inside of those that are open, and closes the innermost one.
void nvtx_push(const std::string& name);
void nvtx_pop();

/// cudaProfilerStart() and cudaProfilerStop() on a GPU, each once the device has done what was queued before.
/// A profiler that was told to wait for them (`nsys profile --capture-range=cudaProfilerApi`, `ncu
/// --profile-from-start off`) looks at what runs in between.
void start_profiler(Device device);
void stop_profiler(Device device);

}  // namespace ringtape
