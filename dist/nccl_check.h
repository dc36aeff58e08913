#pragma once

#include <nccl.h>

namespace ringtape {

/// Throws Error that names the call and NCCL's own words for the code.
void check_nccl(ncclResult_t code, const char* call);

}  // namespace ringtape

/// Calls an NCCL function and checks its result.
#define RINGTAPE_NCCL(call) ::ringtape::check_nccl((call), #call)
