#pragma once

#include <cstdint>

#include "core/dtype.h"

/// Errors of launchers. They are compiled once, outside of the kernel files, because kernel files must not
/// include core/error.h (see core/target.h).
namespace ringtape {

/// Throws Error that names the kernel and CUDA's reason when `cuda_error` (a cudaError_t) is not cudaSuccess.
void check_launch(int cuda_error, const void* kernel);

/// Throws Error: `launcher` has no kernel for elements of this type.
[[noreturn]] void fail_unsupported_dtype(const char* launcher, DType dtype);

/// A grid's size in x. Throws Error above 2^31 - 1, CUDA's limit.
unsigned grid_size(std::int64_t blocks);

}  // namespace ringtape
