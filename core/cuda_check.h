#pragma once

#ifdef RINGTAPE_WITH_CUDA

#include <cuda_runtime_api.h>

namespace ringtape {

/// Throws Error with the call and CUDA's message unless `code` is cudaSuccess.
void check_cuda(cudaError_t code, const char* call);

}  // namespace ringtape

/// Calls a CUDA runtime function and checks its return code.
#define RINGTAPE_CUDA(call) ::ringtape::check_cuda((call), #call)

#endif
