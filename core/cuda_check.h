#pragma once

#ifdef RINGTAPE_WITH_CUDA

#include <cuda_runtime_api.h>

namespace ringtape {

/// Throws Error that names the call and CUDA's own words for the code.
void check_cuda(cudaError_t code, const char* call);

}  // namespace ringtape

/// Calls a CUDA runtime function and checks what it returns.
#define RINGTAPE_CUDA(call) ::ringtape::check_cuda((call), #call)

#endif
