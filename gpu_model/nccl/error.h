#pragma once

#include <nccl.h>

#include <string>

namespace gpu_model::nccl {

/// Keeps `text` for ncclGetLastError(), prints it if NCCL_DEBUG is WARN or INFO, and returns the error.
ncclResult_t fail(ncclResult_t error, const std::string& text);

}  // namespace gpu_model::nccl
