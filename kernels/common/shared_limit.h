#pragma once

#include <cstddef>

#include "core/device.h"

namespace ringtape {

/// Allows `bytes` bytes of dynamic shared memory for blocks of `kernel` on `device`, the current one, from
/// now on: CUDA requires this beyond 48 KiB, static variables included. The limit belongs to the process, so
/// any thread may call this, and it only rises. Throws Error that names the kernel if the device has less.
void allow_shared_memory(const void* kernel, Device device, std::size_t bytes);

}  // namespace ringtape
