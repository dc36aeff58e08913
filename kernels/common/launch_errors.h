#pragma once

#include "core/dtype.h"

/// Errors of launchers. They are compiled once, outside of the kernel files, because kernel files must not
/// include core/error.h (see core/target.h).
namespace ringtape {

/// Throws Error that names the kernel and CUDA's reason when `cuda_error` (a cudaError_t) is not cudaSuccess.
void check_launch(int cuda_error, const void* kernel);

/// Throws Error: `launcher` has no kernel for elements of this type.
[[noreturn]] void fail_unsupported_dtype(const char* launcher, DType dtype);

}  // namespace ringtape
