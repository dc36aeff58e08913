#pragma once

#include "gpu_model/runtime/state.h"

/// Host functions (cudaLaunchHostFunc) run in a separate thread, one at a time, with the mutex released: a
/// function may wait for any other thread, including the one that queued it.
namespace gpu_model {

/// Called when a host function is queued. If the program then makes no calls for a while, it may be waiting
/// for the function, so the thread of host functions runs the work before it, under every schedule.
void expect_host_function();
/// Starts a host function that is ready, and waits for its end, but not for long.
void start_host_function(NodePtr node);
/// Whether a host function has been started that has not ended.
bool host_function_runs();
/// Whether this operation comes after the host function that is running, which may then use the operation's
/// pinned memory.
bool comes_after_host_function(const Node& node);
/// In a host function, which "must not make any CUDA API calls": a report and cudaErrorNotPermitted.
cudaError_t forbid_in_host_function();

}  // namespace gpu_model
