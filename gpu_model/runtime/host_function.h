#pragma once

#include "gpu_model/runtime/state.h"

/// Host functions (cudaLaunchHostFunc) run in a thread of their own, one at a time, and with the mutex
/// released: a function may wait for what another thread does, also for the one that queued it.
namespace gpu_model {

/// Called when a host function is queued. If the program then makes no calls for a while, it may be waiting
/// for the function, so its thread runs what comes before it, under every schedule.
void expect_host_function();
/// Starts a host function that is ready, and waits for a while for its end.
void start_host_function(NodePtr node);
/// Whether a host function has been started that has not ended.
bool host_function_runs();
/// Whether this operation comes after the host function that runs, which may thus use its pinned memory.
bool comes_after_host_function(const Node& node);
/// In a host function, which "must not make any CUDA API calls": a report and cudaErrorNotPermitted.
cudaError_t forbid_in_host_function();

}  // namespace gpu_model
