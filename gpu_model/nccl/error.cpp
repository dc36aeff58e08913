#include "gpu_model/nccl/error.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace gpu_model::nccl {
namespace {

struct LastError {
  std::mutex mutex;
  std::string text;
};

LastError& last_error() {
  static LastError* const error = new LastError;  // outlives every thread
  return *error;
}

}  // namespace

ncclResult_t fail(ncclResult_t error, const std::string& text) {
  const std::lock_guard lock(last_error().mutex);
  last_error().text = text;
  const char* const debug = std::getenv("NCCL_DEBUG");
  if (debug != nullptr && (std::string(debug) == "WARN" || std::string(debug) == "INFO")) {
    std::fprintf(stderr, "gpu model: NCCL WARN %s\n", text.c_str());
  }
  return error;
}

}  // namespace gpu_model::nccl

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled CUDA error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  const std::lock_guard lock(gpu_model::nccl::last_error().mutex);
  text = gpu_model::nccl::last_error().text;
  return text.c_str();
}
}
