#pragma once

#include <nccl.h>

namespace ringtape {

/// Throws Error with the name of the call and NCCL's text for the code, unless it is ncclSuccess or
/// ncclInProgress.
void check_nccl(ncclResult_t code, const char* call);

}  // namespace ringtape

/// Calls an NCCL function and checks its result.
#define RINGTAPE_NCCL(call) ::ringtape::check_nccl((call), #call)
