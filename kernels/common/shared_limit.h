#pragma once

#include <cstddef>

#include "core/device.h"

namespace ringtape {

/// Lets blocks of `kernel` have `bytes` bytes of dynamic shared memory on `device`, the current one, from now
/// on: with the kernel's own variables more than 48 KiB need CUDA's permission. The limit is the process', so
/// any thread may call this, and it only rises. Throws Error that names the kernel where the device has less.
void allow_shared_memory(const void* kernel, Device device, std::size_t bytes);

}  // namespace ringtape
